//! Source of the figures in `docs/clocks.md`: what skewing clocks costs and does here, with the installed
//! redis-server and etcd. `cargo run --release -p fencepost-nemesis --example clock_cost`

mod common;

use common::{Client, Outcome, Server, installed, redis_benchmark};
use fencepost_nemesis::tools::clock::{self, ClockError, Patched, Skew};
use std::process::Command;
use std::time::{Duration, Instant};

const SECOND: i64 = 1_000_000_000;
const PORT: u16 = 16379;
const ETCD_PORT: u16 = 12379;
const LOAD: [&str; 5] = ["-p", "16379", "-t", "set,get", "-q"];

fn main() -> Outcome<()> {
    if std::env::args().nth(1).as_deref() == Some("spin") {
        spin();
    }
    let spinner = Server::start(Command::new(std::env::current_exe()?).arg("spin"))?;
    std::thread::sleep(Duration::from_millis(200));
    lifecycle("8 spinning threads", spinner.pid(), 50)?;
    drop(spinner);
    if installed("redis-server") {
        redis()?;
    }
    if installed("etcd") {
        etcd()?;
    }
    Ok(())
}

fn lifecycle(what: &str, pid: i32, rounds: usize) -> Outcome<()> {
    let mut took = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let patched = timed(&mut took[0], || clock::install(pid))?;
        timed(&mut took[1], || patched.set(Skew { wall_ns: SECOND, ..Skew::default() }))?;
        timed(&mut took[2], || clock::observe(pid))?;
        timed(&mut took[3], || patched.remove())?;
    }
    for (step, took) in ["install", "set", "observe", "remove"].iter().zip(&mut took) {
        report(&format!("{what}: {step}"), took);
    }
    Ok(())
}

fn redis() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(&mut common::redis(PORT, folder.path()))?;
    let mut redis = Client::connect(PORT, |client| client.redis("PING"))?;
    lifecycle("redis, idle", server.pid(), 50)?;

    let patched = clock::install(server.pid())?;
    let mut took = Vec::new();
    for round in 1..=200 {
        let ahead = round * 60;
        let begun = Instant::now();
        patched.set(wall(ahead))?;
        while seconds(&mut redis)? < now_s() + ahead - 1 {}
        took.push(begun.elapsed());
    }
    report("redis: from the command until TIME shows the jump", &mut took);

    let mut took = Vec::new();
    for _ in 0..50 {
        patched.set(wall(0))?;
        redis.redis("SET lock mine PX 30000")?;
        let begun = Instant::now();
        patched.set(wall(60))?;
        while redis.redis("GET lock")? != "$-1" {}
        took.push(begun.elapsed());
    }
    report("redis: from +60 s until a key with PX 30000 is gone", &mut took);
    patched.set(wall(0))?;
    redis.redis("SET lock mine PX 30000")?;
    patched.set(wall(-30))?;
    println!("redis: PTTL of a key with PX 30000 after -30 s: {}", redis.redis("PTTL lock")?);
    patched.set(wall(0))?;
    patched.remove()?;

    for round in 1..=3 {
        let plain = throughput()?;
        let patched = clock::install(server.pid())?;
        let skewed = throughput()?;
        patched.remove()?;
        println!("redis: SET/s and GET/s, round {round}: {plain} without the patch, {skewed} with it");
    }

    let mut load = Server::start(Command::new("redis-benchmark").args(LOAD).args(["-n", "100000000"]))?;
    std::thread::sleep(Duration::from_millis(300));
    lifecycle("redis, under load", server.pid(), 100)?;
    let patched = clock::install(server.pid())?;
    let begun = Instant::now();
    for jump in 0..1000 {
        patched.set(Skew {
            wall_ns: (jump % 7 - 3) * 20 * SECOND,
            monotonic_ns: jump % 5 * SECOND,
            ..Skew::default()
        })?;
        std::thread::sleep(Duration::from_millis(2));
    }
    let alive = redis.redis("PING")? == "+PONG" && load.0.try_wait()?.is_none();
    println!("redis: 1000 jumps under load in {:?}; alive: {alive}", begun.elapsed());
    Ok(())
}

fn etcd() -> Outcome<()> {
    let version = Command::new("etcd").arg("--version").output()?.stdout;
    println!("{}", String::from_utf8_lossy(&version).lines().next().unwrap_or_default());
    with_etcd(|pid, etcd| {
        lifecycle("etcd, idle", pid, 50)?;
        jumps_under_leases(&clock::install(pid)?, etcd)
    })?;
    let jump = |wall: i64, monotonic: i64| Skew {
        wall_ns: wall * SECOND,
        monotonic_ns: monotonic * SECOND,
        ..Skew::default()
    };
    let drift = Skew { wall_drift_ppm: 3_000_000, monotonic_drift_ppm: 3_000_000, ..Skew::default() };
    for (what, ttl_s, skew) in [
        ("no skew", 5, jump(0, 0)),
        ("wall +60 s", 20, jump(60, 0)),
        ("monotonic +60 s", 20, jump(0, 60)),
        ("both +60 s", 20, jump(60, 60)),
        ("both four times as fast", 20, drift),
    ] {
        // Each on a server of its own: a jump back leaves etcd with leases to look at in the far future.
        with_etcd(|pid, etcd| {
            let patched = clock::install(pid)?;
            let lease = lease_grant(etcd, ttl_s)?;
            etcd.etcd("kv/put", &format!("{{\"key\":\"bG9jaw==\",\"lease\":{lease}}}"))?;
            let begun = Instant::now();
            patched.set(skew)?;
            while locked(etcd)? && begun.elapsed() < Duration::from_secs(8) {
                std::thread::sleep(Duration::from_millis(2));
            }
            let (passed, fate) = (begun.elapsed(), if locked(etcd)? { "still there" } else { "gone" });
            println!("etcd: a key with a lease of {ttl_s} s, {what}: {fate} after {passed:.1?}");
            Ok(())
        })?;
    }
    Ok(())
}

/// Starts an etcd for this, and gives it the process and a client.
fn with_etcd(work: impl FnOnce(i32, &mut Client) -> Outcome<()>) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(&mut common::etcd(ETCD_PORT, folder.path()))?;
    let mut client = Client::connect(ETCD_PORT, |client| lease_grant(client, 5))?;
    work(server.pid(), &mut client)
}

fn jumps_under_leases(patched: &Patched, etcd: &mut Client) -> Outcome<()> {
    let begun = Instant::now();
    for jump in 0..1000 {
        let by = (jump % 7) * SECOND;
        patched.set(Skew { wall_ns: by, monotonic_ns: by, ..Skew::default() })?;
        if jump % 10 == 0 {
            lease_grant(etcd, 5)?;
        }
    }
    patched.set(Skew::default())?;
    println!(
        "etcd: 1000 jumps while leases are granted in {:?}; alive: {}",
        begun.elapsed(),
        lease_grant(etcd, 5).is_ok()
    );
    Ok(())
}

fn lease_grant(etcd: &mut Client, ttl_s: u32) -> Outcome<i64> {
    let answer = etcd.etcd("lease/grant", &format!("{{\"TTL\":{ttl_s}}}"))?;
    let (_, rest) = answer.split_once("\"ID\":\"").ok_or("a lease without an ID")?;
    Ok(rest.split('"').next().unwrap_or("").parse()?)
}

fn locked(etcd: &mut Client) -> Outcome<bool> {
    Ok(etcd.etcd("kv/range", "{\"key\":\"bG9jaw==\"}")?.contains("\"count\":\"1\""))
}

fn wall(seconds: i64) -> Skew {
    Skew { wall_ns: seconds * SECOND, ..Skew::default() }
}

fn now_s() -> i64 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() as i64
}

fn seconds(redis: &mut Client) -> Outcome<i64> {
    redis.redis("TIME")?;
    let [_, seconds, _, _] = [(); 4].map(|()| redis.line());
    Ok(seconds?.parse()?)
}

fn throughput() -> Outcome<String> {
    let rates = redis_benchmark(&[&LOAD[..], &["-n", "100000"]].concat())?;
    Ok(rates.iter().map(|rate| format!("{rate:.2}")).collect::<Vec<_>>().join(" and "))
}

fn timed<T>(took: &mut Vec<Duration>, work: impl FnOnce() -> Result<T, ClockError>) -> Result<T, ClockError> {
    let begun = Instant::now();
    let done = work();
    took.push(begun.elapsed());
    done
}

fn report(what: &str, took: &mut [Duration]) {
    took.sort();
    let (median, p99, most) = (took[took.len() / 2], took[took.len() * 99 / 100], took[took.len() - 1]);
    println!("{what}: median {median:.1?}, p99 {p99:.1?}, most {most:.1?} of {}", took.len());
}

fn spin() -> ! {
    for _ in 0..7 {
        std::thread::spawn(|| {
            loop {
                std::hint::black_box(Instant::now());
            }
        });
    }
    loop {
        std::hint::black_box(std::time::SystemTime::now());
    }
}
