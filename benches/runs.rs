//! What whole runs cost, measured on real clusters: `cargo bench --bench runs`.
//!
//! - From command to first operation, and from the last operation to the end, under each driver that can run
//!   here.
//! - Critical sections a second against one local Redis, beside a bare loop with the same crate, recipe and
//!   storage in one process. Needs `redis-server` on the PATH for the bare loop.
//!
//! One measurement is a run of seconds, and what counts is its median.

use fencepost_history::{Completion, Event, f, read_history};
use fencepost_locks::protocol::{Hello, Server, VERSION};
use fencepost_locks::{Notices, Session};
use fencepost_storage::{Credentials, ProtectedStorage};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");
const RUNS: usize = 5;
const KEYS: usize = 10;
const PROCESSES: usize = 10;
const SECTIONS_FOR: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

fn main() {
    for driver in ["local", "docker"] {
        match start_and_end(driver) {
            Ok((start, end)) => println!(
                "{driver:<7} command to first operation {:>5.2} s, last operation to end {:>5.2} s (median of {RUNS}, redlock)",
                start.as_secs_f64(),
                end.as_secs_f64()
            ),
            Err(reason) => println!("{driver:<7} not measured: {reason}"),
        }
    }
    for hold_ms in [0, 1, 10] {
        sections(Duration::from_millis(hold_ms));
    }
}

fn start(args: &str) -> (Child, tempfile::TempDir) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let child = Command::new(PROGRAM)
        .args(["test", "--results", results.path().to_str().expect("a path in UTF-8")])
        .args(args.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    (child, results)
}

fn history(results: &tempfile::TempDir) -> Vec<Event> {
    read_history(&results.path().join("latest/history.jsonl")).unwrap_or_default()
}

fn start_and_end(driver: &str) -> Result<(Duration, Duration), String> {
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    // The first run may have to make images: it does not count.
    for _ in 0..=RUNS {
        let begun = Instant::now();
        let (mut child, results) = start(&format!("--driver {driver} --time-limit 1s --hold 10ms"));
        let path = results.path().join("latest/history.jsonl");
        while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains("acquire")) {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(format!("the driver {driver} could not run; `fencepost doctor` says why"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        starts.push(begun.elapsed());
        let first = Instant::now();
        child.wait().map_err(|error| error.to_string())?;
        let last_ns = history(&results).last().map_or(0, |event| event.time);
        ends.push(first.elapsed().saturating_sub(Duration::from_nanos(last_ns)));
    }
    Ok((median(starts.split_off(1)), median(ends.split_off(1))))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn sections(hold: Duration) {
    let ours = through_fencepost(hold);
    match through_a_bare_loop(hold) {
        Ok(bare) => println!(
            "hold {:>2} ms: {ours:>7.0} critical sections/s through Fencepost, {bare:>7.0} in a bare loop: {:.0} %",
            hold.as_millis(),
            100.0 * ours / bare
        ),
        Err(reason) => println!(
            "hold {:>2} ms: {ours:>7.0} critical sections/s; no bare loop: {reason}",
            hold.as_millis()
        ),
    }
}

/// Critical sections a second of a whole run with one client program.
fn through_fencepost(hold: Duration) -> f64 {
    let (mut child, results) = start(&format!(
        "--driver local --lock redis-single --clients 1 --concurrency {PROCESSES} --keys {KEYS} --hold {}ms --time-limit {}s",
        hold.as_millis(),
        SECTIONS_FOR.as_secs()
    ));
    let _ = child.wait();
    let acquired = |event: &&Event| event.f == f::RELEASE && event.kind == fencepost_history::Kind::Ok;
    history(&results).iter().filter(acquired).count() as f64 / SECTIONS_FOR.as_secs_f64()
}

/// The same with the same recipe, but nothing between the loop and the servers, and nothing recorded.
fn through_a_bare_loop(hold: Duration) -> Result<f64, String> {
    let port = "17379";
    let mut redis = Command::new("redis-server")
        .args(["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("redis-server cannot be started: {error}"))?;
    std::thread::sleep(Duration::from_millis(500));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let sections = runtime.block_on(bare_loop(&format!("127.0.0.1:{port}"), hold));
    let _ = redis.kill();
    let _ = redis.wait();
    sections.map(|sections| sections as f64 / SECTIONS_FOR.as_secs_f64())
}

async fn bare_loop(redis: &str, hold: Duration) -> Result<u64, String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    let storage = listener.local_addr().map_err(|error| error.to_string())?.to_string();
    let guard = fencepost_storage::find_guard("none").expect("registered");
    tokio::spawn(fencepost_storage::serve_storage(listener, guard));
    let storage = Arc::new(ProtectedStorage::open(&[storage], guard).expect("one storage"));
    let hello = Hello {
        hello: VERSION,
        client: "bare".to_owned(),
        lock: "redis-single".to_owned(),
        servers: vec![Server { name: "n1".to_owned(), address: redis.to_owned(), tls_name: None }],
        guard: "none".to_owned(),
        seed: 1,
        ..Hello::default()
    };
    let lock = fencepost_locks::find("redis-single").expect("registered");
    let session: Arc<Session> = Arc::new(lock.connect(&hello).await.map_err(|error| error.to_string())?);
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for process in 0..PROCESSES as u64 {
        let (session, storage, done) = (session.clone(), storage.clone(), done.clone());
        tasks.spawn(async move { one_process(process, &session, &storage, hold, &done).await });
    }
    while tasks.join_next().await.is_some() {}
    Ok(done.load(Ordering::Relaxed))
}

async fn one_process(
    process: u64,
    session: &Session,
    storage: &ProtectedStorage,
    hold: Duration,
    done: &AtomicU64,
) {
    let (notices, _deaf) = tokio::sync::mpsc::unbounded_channel();
    let mut lock = session(process, Notices::new(process, notices, Arc::from([])));
    let begun = Instant::now();
    for turn in process.. {
        if begun.elapsed() > SECTIONS_FOR {
            return;
        }
        // As scattered as random draws, without their cost.
        let key = format!("k{}", (turn * 7 + process * 3) as usize % KEYS);
        if !matches!(lock.acquire(&key, 2 * SECOND, 2 * SECOND).await, Completion::Ok(_)) {
            continue;
        }
        let value = match storage.read(&key, &Credentials::default(), SECOND).await {
            Completion::Ok(value) => value.as_i64().unwrap_or_default(),
            _ => continue,
        };
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        storage.write(&key, &(value + 1).into(), &Credentials::default(), SECOND).await;
        lock.release(&key, SECOND).await;
        done.fetch_add(1, Ordering::Relaxed);
        if !hold.is_zero() {
            // A run rests about as long as it holds.
            tokio::time::sleep(hold).await;
        }
    }
}
