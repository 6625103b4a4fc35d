//! A lease lasts as long as the server's clock says.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, dosed, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use serde_json::json;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-clock-jump",
    source: "K",
    about: "the node's clock jumps forward past the TTL while a client holds the lock",
    expected: "broken: granted twice",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let jump = strike("clock-jump", &["n1"], acquired("c1"), Duration::from_secs(2));
    vec![
        Act::directed("", "--backend redis-single --ttl 4s")
            .part("c1", vec![Acquire, Read, After(acquired("c2")), Write, Release])
            .part(
                "c2",
                vec![
                    After(struck("clock-jump")),
                    Acquire,
                    Read,
                    After(begins("c1", "release")),
                    Write,
                    Release,
                ],
            )
            .strike(dosed(jump, json!({"wall_ms": 30_000})))
            .tell(acquired("c1"), "client 1 acquires the lock for 4 s")
            .tell(struck("clock-jump"), "the clock of the Redis node jumps by 30 s: the key has expired")
            .tell(acquired("c2"), "client 2 acquires the lock, which client 1 still holds")
            .expect(Broken("exclusion", "granted-twice")),
    ]
}
