//! Many runs for measurements: copies of one real run that differ in their locks and times.

use crate::server::Server;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMES: usize = 15;

pub const LOCKS: [&str; 4] = ["redlock", "etcd", "redis-single", "zookeeper-sequential"];

pub struct Original {
    /// `run.toml`.
    pub run: String,
    /// `verdict.json`.
    pub verdict: String,
}

impl Original {
    pub fn make() -> Original {
        let one = tempfile::tempdir().expect("a temporary folder");
        let options = "test --config none --driver local --nemesis clock-jump --time-limit 5s --results";
        let status = Command::new(crate::PROGRAM)
            .args(options.split_whitespace())
            .arg(one.path())
            .stdout(Stdio::null())
            .status()
            .expect("the program starts");
        assert!(status.code().is_some_and(|code| code <= 2), "the run to be copied failed");
        let read =
            |name: &str| fs::read_to_string(one.path().join("latest").join(name)).expect("the run left it");
        let original = Original { run: read("run.toml"), verdict: read("verdict.json") };
        println!(
            "each run: run.toml {} bytes, verdict.json {} bytes",
            original.run.len(),
            original.verdict.len()
        );
        original
    }

    /// Measures `fencepost serve` with that many copies: how long until it listens, and pages.
    pub fn serve(&self, runs: usize) {
        let results = tempfile::tempdir().expect("a temporary folder");
        self.fill(results.path(), runs);
        // What changed a moment ago is read again at each look; that is no run's usual state.
        std::thread::sleep(Duration::from_secs(3));
        let begun = Instant::now();
        let server = Server::start(results.path());
        let address = &server.address;
        println!("{:<44} {:>8.0} ms", format!("serve: start, {runs} runs"), ms(begun.elapsed()));
        let (took, bytes) = get(address, "/");
        println!("{:<44} {:>8.0} ms, {} kB", "first page, the first time", ms(took), bytes / 1000);
        for (what, path) in [
            ("first page", "/"),
            ("one lock", "/?lock=etcd"),
            ("three words of text", "/?text=etcd+clock+run-9"),
            ("sorted by verdict, page 50", "/?sort=verdict&page=50"),
            ("one run", format!("/run/run-{}", runs - 1).as_str()),
        ] {
            let mut times: Vec<Duration> = (0..TIMES).map(|_| get(address, path).0).collect();
            times.sort();
            println!("{what:<44} {:>8.0} ms, most {:.0} ms", ms(times[TIMES / 2]), ms(times[TIMES - 1]));
        }
    }

    /// Folders of runs as the real one left its own.
    fn fill(&self, results: &Path, runs: usize) {
        for number in 0..runs {
            let folder = results.join(format!("run-{number}"));
            fs::create_dir_all(folder.join("logs")).expect("a folder");
            let lock = format!("lock = \"{}\"", LOCKS[number % LOCKS.len()]);
            let started = self.run.lines().map(|line| match line.strip_prefix("started = ") {
                Some(_) => format!("started = {}\n", 1_700_000_000 + number * 600),
                None => format!("{line}\n"),
            });
            let text = started.collect::<String>().replace("lock = \"redlock\"", &lock);
            fs::write(folder.join("run.toml"), text).expect("a file");
            fs::write(folder.join("verdict.json"), &self.verdict).expect("a file");
            fs::write(folder.join("history.jsonl"), "").expect("a file");
        }
    }
}

/// How long the answer took, and its length.
fn get(address: &str, path: &str) -> (Duration, usize) {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {}", answer.lines().next().unwrap_or_default());
    assert!(answer.contains("run-"), "{path} shows no run");
    (begun.elapsed(), answer.len())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
