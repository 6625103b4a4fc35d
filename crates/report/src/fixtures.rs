//! Small histories that tests tell and draw, with their headings.

use crate::Heading;
use fencepost_history::Event;
use fencepost_history::run::RunFile;

/// `run.toml` of a run with some settings.
pub fn run_file() -> RunFile {
    toml::from_str(include_str!("fixtures/run.toml")).expect("the fixture is a run.toml")
}

/// A run in a test.
pub struct Fixture {
    pub heading: Heading,
    pub events: Vec<Event>,
}

/// The clock of one node jumps, and Redlock gives the lock away once more.
pub fn redlock_clock_jump() -> Fixture {
    fixture(
        "redlock",
        "Redis 7.0.15",
        "clock-jump",
        "none",
        2000,
        include_str!("fixtures/redlock-clock-jump.jsonl"),
    )
}

/// A client sleeps for longer than its lease, and the storage refuses its late write.
pub fn etcd_pause_token() -> Fixture {
    fixture("etcd", "etcd 3.4.23", "pause", "token", 1000, include_str!("fixtures/etcd-pause-token.jsonl"))
}

/// Nothing goes wrong.
pub fn redis_single_none() -> Fixture {
    fixture(
        "redis-single",
        "Redis 7.0.15",
        "none",
        "none",
        2000,
        include_str!("fixtures/redis-single-none.jsonl"),
    )
}

fn fixture(lock: &str, server: &str, nemesis: &str, guard: &str, ttl_ms: u64, lines: &str) -> Fixture {
    let command = format!("fencepost test --lock {lock} --nemesis {nemesis} --guard {guard} --seed 7");
    let heading = Heading {
        lock: lock.to_owned(),
        title: lock.to_owned(),
        workload: "increment".to_owned(),
        nemesis: nemesis.to_owned(),
        driver: "local".to_owned(),
        guard: guard.to_owned(),
        servers: vec![server.to_owned()],
        seed: 7,
        command,
        fencepost: "0.1.0".to_owned(),
        date: "2026-02-13 16:26:40 UTC".to_owned(),
        ttl_ms,
        settings: vec![("clients".to_owned(), "5".to_owned()), ("concurrency".to_owned(), "10".to_owned())],
        ..Heading::default()
    };
    let events =
        lines.lines().map(|line| serde_json::from_str(line).expect("a line of a fixture is an event"));
    Fixture { heading, events: events.collect() }
}
