//! The faults of a simulated run.

use super::simulation::{CLIENTS, SECOND, SERVER, Time, client};
use fencepost_history::Stream;
use rand::RngExt;

/// A fault of the plan.
pub struct Planned {
    pub kind: &'static str,
    pub target: String,
    pub from: Time,
    pub until: Time,
    pub by_ms: i64,
}

/// Faults of a few kinds, no two of a kind on one target at a time.
pub fn plan(random: &mut Stream, ttl: Time, length: Time) -> Vec<Planned> {
    let mut plan: Vec<Planned> = Vec::new();
    for _ in 0..random.random_range(1..7) {
        let kind = ["pause", "pause", "kill", "clock-jump", "partition"][random.random_range(0..5)];
        let of_client = kind == "partition" || kind == "pause" && random.random_bool(0.7);
        let target = match of_client {
            true => client(random.random_range(0..CLIENTS)),
            false => SERVER.to_owned(),
        };
        let from = random.random_range(200_000..length - SECOND);
        let until = from + 30_000 + random.random_range(ttl / 4..2 * ttl);
        let by_ms = (ttl / 1_000) as i64 * random.random_range(-3..30);
        let is_apart = |other: &Planned| {
            other.kind != kind
                || other.target != target
                || until + 30_000 < other.from
                || other.until + 30_000 < from
        };
        // A server that is down has no clock, and what is stopped is not killed: each alone.
        let is_alone = |other: &Planned| {
            target != SERVER
                || other.target != SERVER
                || until + 30_000 < other.from
                || other.until + 30_000 < from
        };
        if until < length && plan.iter().all(|other| is_apart(other) && is_alone(other)) {
            plan.push(Planned { kind, target, from, until, by_ms });
        }
    }
    plan
}
