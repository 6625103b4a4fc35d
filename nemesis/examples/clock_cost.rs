//! Source of the figures in `docs/clocks.md`: what skewing clocks costs and does here, with the installed
//! redis-server and etcd. `cargo run --release -p fencepost-nemesis --example clock_cost`

use fencepost_nemesis::tools::clock::{self, ClockError, Patched, Skew};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
const SECOND: i64 = 1_000_000_000;

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
    let folder = std::env::temp_dir().join(format!("clock-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new("redis-server");
    command.args(["--port", "16379", "--save", "", "--dir"]).arg(&folder);
    let server = Server::start(&mut command)?;
    let mut redis = Redis::connect()?;
    lifecycle("redis, idle", server.pid(), 50)?;

    let patched = clock::install(server.pid())?;
    let mut took = Vec::new();
    for round in 1..=200 {
        let ahead = round * 60;
        let begun = Instant::now();
        patched.set(wall(ahead))?;
        while redis.seconds()? < now_s() + ahead - 1 {}
        took.push(begun.elapsed());
    }
    report("redis: from the command until TIME shows the jump", &mut took);

    let mut took = Vec::new();
    for _ in 0..50 {
        patched.set(wall(0))?;
        redis.ask("SET lock mine PX 30000")?;
        let begun = Instant::now();
        patched.set(wall(60))?;
        while redis.ask("GET lock")? != "$-1" {}
        took.push(begun.elapsed());
    }
    report("redis: from +60 s until a key with PX 30000 is gone", &mut took);
    patched.set(wall(0))?;
    redis.ask("SET lock mine PX 30000")?;
    patched.set(wall(-30))?;
    println!("redis: PTTL of a key with PX 30000 after -30 s: {}", redis.ask("PTTL lock")?);
    patched.set(wall(0))?;
    patched.remove()?;

    for round in 1..=3 {
        let plain = throughput()?;
        let patched = clock::install(server.pid())?;
        let skewed = throughput()?;
        patched.remove()?;
        println!("redis: SET/s and GET/s, round {round}: {plain} without the patch, {skewed} with it");
    }

    let mut load = benchmark().args(["-n", "100000000"]).spawn()?;
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
    let alive = redis.ask("PING")? == "+PONG" && load.try_wait()?.is_none();
    println!("redis: 1000 jumps under load in {:?}; alive: {alive}", begun.elapsed());
    load.kill()?;
    load.wait()?;
    drop(server);
    Ok(std::fs::remove_dir_all(&folder)?)
}

fn etcd() -> Outcome<()> {
    let version = Command::new("etcd").arg("--version").output()?.stdout;
    println!("{}", String::from_utf8_lossy(&version).lines().next().unwrap_or_default());
    with_etcd(|server| {
        lifecycle("etcd, idle", server.pid(), 50)?;
        jumps_under_leases(&clock::install(server.pid())?)
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
        with_etcd(|server| {
            let patched = clock::install(server.pid())?;
            let lease = lease_grant(ttl_s)?;
            etcd_call("kv/put", &format!("{{\"key\":\"bG9jaw==\",\"lease\":{lease}}}"))?;
            let begun = Instant::now();
            patched.set(skew)?;
            while locked()? && begun.elapsed() < Duration::from_secs(8) {
                std::thread::sleep(Duration::from_millis(2));
            }
            let (passed, fate) = (begun.elapsed(), if locked()? { "still there" } else { "gone" });
            println!("etcd: a key with a lease of {ttl_s} s, {what}: {fate} after {passed:.1?}");
            Ok(())
        })?;
    }
    Ok(())
}

fn with_etcd(work: impl FnOnce(&Server) -> Outcome<()>) -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("clock-cost-{}", std::process::id()));
    let mut command = Command::new("etcd");
    command
        .args(["--listen-client-urls", ETCD_URL, "--advertise-client-urls", ETCD_URL, "--data-dir"])
        .arg(&folder);
    command.args(["--listen-peer-urls", "http://127.0.0.1:12380", "--log-level", "error"]);
    let server = Server::start(&mut command)?;
    let begun = Instant::now();
    while lease_grant(5).is_err() && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
    }
    work(&server)?;
    drop(server);
    Ok(std::fs::remove_dir_all(&folder)?)
}

fn jumps_under_leases(patched: &Patched) -> Outcome<()> {
    let begun = Instant::now();
    for jump in 0..1000 {
        let by = (jump % 7) * SECOND;
        patched.set(Skew { wall_ns: by, monotonic_ns: by, ..Skew::default() })?;
        if jump % 10 == 0 {
            lease_grant(5)?;
        }
    }
    patched.set(Skew::default())?;
    println!(
        "etcd: 1000 jumps while leases are granted in {:?}; alive: {}",
        begun.elapsed(),
        lease_grant(5).is_ok()
    );
    Ok(())
}

const ETCD_URL: &str = "http://127.0.0.1:12379";

fn lease_grant(ttl_s: u32) -> Outcome<i64> {
    number(&etcd_call("lease/grant", &format!("{{\"TTL\":{ttl_s}}}"))?, "ID")
}

fn locked() -> Outcome<bool> {
    Ok(etcd_call("kv/range", "{\"key\":\"bG9jaw==\"}")?.contains("\"count\":\"1\""))
}

fn etcd_call(method: &str, body: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect("127.0.0.1:12379")?;
    let length = body.len();
    write!(stream, "POST /v3/{method} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.contains("200 OK") { Ok(answer) } else { Err(answer.into()) }
}

fn number(answer: &str, field: &str) -> Outcome<i64> {
    let (_, rest) = answer.split_once(&format!("\"{field}\":\"")).ok_or(field.to_owned())?;
    Ok(rest.split('"').next().unwrap_or("").parse()?)
}

fn wall(seconds: i64) -> Skew {
    Skew { wall_ns: seconds * SECOND, ..Skew::default() }
}

fn now_s() -> i64 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() as i64
}

fn benchmark() -> Command {
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", "16379", "-t", "set,get", "-q"]).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn throughput() -> Outcome<String> {
    let output = benchmark().args(["-n", "100000", "--csv"]).stdout(Stdio::piped()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let rates = text.lines().skip(1).filter_map(|line| line.split("\",\"").nth(1));
    Ok(rates.collect::<Vec<_>>().join(" and "))
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

fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
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

struct Server(Child);

impl Server {
    fn start(command: &mut Command) -> io::Result<Server> {
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Server)
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Redis(BufReader<TcpStream>);

impl Redis {
    fn connect() -> io::Result<Redis> {
        let begun = Instant::now();
        loop {
            match TcpStream::connect("127.0.0.1:16379") {
                Ok(stream) => return stream.set_nodelay(true).map(|()| Redis(BufReader::new(stream))),
                Err(error) if begun.elapsed() > Duration::from_secs(5) => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// The first line of the answer; for a string, the rest is passed over.
    fn ask(&mut self, command: &str) -> io::Result<String> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        let line = self.line()?;
        if line.starts_with('$') && line != "$-1" {
            self.line()?;
        }
        Ok(line)
    }

    fn seconds(&mut self) -> io::Result<i64> {
        self.0.get_mut().write_all(b"TIME\r\n")?;
        let lines = [(); 5].map(|()| self.line());
        let [_, _, seconds, _, _] = lines;
        seconds?.parse().map_err(io::Error::other)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
