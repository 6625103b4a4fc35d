//! A clock that jumps back makes a lease longer.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, dosed, refused, strike, struck};
use crate::scenarios::expect::Expect::{Holds, Look};
use crate::scenarios::expect::{Metric, Seen, completions};
use fencepost_engine::Step::{Acquire, After, Try};
use fencepost_history::Kind;
use serde_json::json;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-clock-back",
    source: "the other direction of redis-clock-jump",
    about: "the clock jumps backward while client 1, which is then killed, holds the lock",
    expected: "exclusion holds; the lock is stuck for the size of the jump",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let jump = strike("clock-jump", &["n1"], acquired("c1"), Duration::from_secs(60));
    vec![
        Act::directed("", "--backend redis-single --ttl 1s --acquire-timeout 5s")
            .doomed("c1", vec![Acquire, After(struck("kill"))])
            .part("c2", vec![After(struck("kill")), Try])
            .strike(dosed(jump, json!({"wall_ms": -30_000})))
            .strike(strike("kill", &["c1"], struck("clock-jump"), Duration::from_secs(60)))
            .tell(acquired("c1"), "client 1 acquires the lock for 1 s")
            .tell(struck("clock-jump"), "the clock of the node jumps back by 30 s: the key has 31 s to live")
            .tell(struck("kill"), "client 1 is killed")
            .tell(refused("c2", "acquire"), "client 2 tries for 5 s, five times the TTL, in vain")
            .expect(Holds("exclusion"))
            .expect(Look("nobody acquires the lock for several times its TTL", stuck)),
    ]
}

/// The one attempt of client 2 failed, and lasted for more than three TTLs.
fn stuck(seen: &Seen) -> (bool, String, Vec<Metric>) {
    let refused = completions(seen, "acquire").find(|event| event.kind == Kind::Fail);
    let granted = completions(seen, "acquire").find(|event| event.kind == Kind::Ok);
    let (Some(refused), Some(granted)) = (refused, granted) else {
        return (false, "no attempt failed".to_owned(), Vec::new());
    };
    let stuck_s = (refused.time - granted.time) as f64 / 1e9;
    let observed = format!(
        "{stuck_s:.1} s after the lock was taken for 1 s, and its holder died, nobody could acquire it"
    );
    let figure = Metric::new("stuck for more than", stuck_s, "s");
    (refused.time > granted.time && stuck_s > 3.0, observed, vec![figure])
}
