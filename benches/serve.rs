//! What looking around costs a user with 10,000 runs: `cargo bench --bench serve`, as root.

#[path = "../tests/all/common/server.rs"]
mod server;
#[path = "common/synthetic.rs"]
mod synthetic;

use server::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use synthetic::Original;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");
const RUNS: usize = 10_000;
const TIMES: usize = 15;

fn main() {
    let results = tempfile::tempdir().expect("a temporary folder");
    Original::make().fill(results.path(), RUNS);
    // What changed a moment ago is read again at each look; that is no run's usual state.
    std::thread::sleep(Duration::from_secs(3));
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
