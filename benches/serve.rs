//! What looking around costs with 10,000 runs: `cargo bench --bench serve`, as root (it makes one real run, and copies it).
//!
//! No criterion: the program is started as a user starts it, and what counts is how long one waits.

#[path = "../tests/all/common/server.rs"]
mod server;

use server::Server;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 10_000;
const TIMES: usize = 15;

fn main() {
    let results = tempfile::tempdir().expect("a temporary folder");
    fill(results.path());
    let begun = Instant::now();
    let server = Server::start(results.path());
    let address = &server.address;
    println!("{:<44} {:>8.0} ms", format!("start, {RUNS} runs"), ms(begun.elapsed()));
    let begun = Instant::now();
    let page = get(address, "/");
    println!(
        "{:<44} {:>8.0} ms, {} kB",
        "first page, asked for once",
        ms(begun.elapsed()),
        page.len() / 1000
    );
    for (what, path) in [
        ("first page", "/"),
        ("one lock", "/?lock=etcd"),
        ("three words of text", "/?text=etcd+clock+run-9"),
        ("sorted by verdict, page 50", "/?sort=verdict&page=50"),
        ("one run", "/run/run-9999"),
    ] {
        let mut times: Vec<Duration> = (0..TIMES).map(|_| timed(address, path)).collect();
        times.sort();
        println!("{:<44} {:>8.0} ms, most {:.0} ms", what, ms(times[TIMES / 2]), ms(times[TIMES - 1]));
    }
}

/// Folders of runs as one real run leaves them, but for the lock and the time.
fn fill(results: &Path) {
    let one = tempfile::tempdir().expect("a temporary folder");
    let status = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args([
            "test",
            "--config",
            "none",
            "--driver",
            "local",
            "--nemesis",
            "clock-jump",
            "--time-limit",
            "5s",
        ])
        .arg("--results")
        .arg(one.path())
        .stdout(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.code().is_some_and(|code| code <= 2), "the run to be copied failed");
    let read =
        |name: &str| fs::read_to_string(one.path().join("latest").join(name)).expect("the run left it");
    let (run, verdict) = (read("run.toml"), read("verdict.json"));
    println!("each run: run.toml {} bytes, verdict.json {} bytes", run.len(), verdict.len());
    let locks = ["redlock", "etcd", "redis-single", "zookeeper-sequential"];
    for number in 0..RUNS {
        let folder = results.join(format!("run-{number}"));
        fs::create_dir_all(folder.join("logs")).expect("a folder");
        let lock = format!("lock = \"{}\"", locks[number % locks.len()]);
        let started = run.lines().map(|line| match line.strip_prefix("started = ") {
            Some(_) => format!("started = {}\n", 1_700_000_000 + number * 600),
            None => format!("{line}\n"),
        });
        let text = started.collect::<String>().replace("lock = \"redlock\"", &lock);
        fs::write(folder.join("run.toml"), text).expect("a file");
        fs::write(folder.join("verdict.json"), &verdict).expect("a file");
        fs::write(folder.join("history.jsonl"), "").expect("a file");
    }
    // What changed a moment ago is read again at each look; that is no run's usual state.
    std::thread::sleep(Duration::from_secs(3));
}

fn timed(address: &str, path: &str) -> Duration {
    let begun = Instant::now();
    get(address, path);
    begun.elapsed()
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {}", answer.lines().next().unwrap_or_default());
    assert!(answer.contains("run-"), "{path} shows no run");
    answer
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
