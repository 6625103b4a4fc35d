//! Kleppmann's first example against Redlock.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, dosed, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use crate::scenarios::tales::patterns::{both_cut, meeting_in_n3};
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use serde_json::json;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-clock-jump",
    source: "K",
    about: "client 1 locks A, B, C and cannot reach D, E; the clock of C jumps past the TTL; client 2 locks C, D, E and cannot reach A, B",
    expected: "broken: granted twice",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let jump = strike("clock-jump", &["n3"], acquired("c1"), Duration::from_secs(2));
    let act = Act::directed("", "--backend redlock --ttl 4s")
        .part("c1", vec![After(both_cut()), Acquire, Read, After(acquired("c2")), Write, Release])
        .part(
            "c2",
            vec![After(struck("clock-jump")), Acquire, Read, After(begins("c1", "release")), Write, Release],
        )
        .strike(dosed(jump, json!({"wall_ms": 30_000})))
        .tell(acquired("c1"), "client 1 acquires the lock on n1, n2 and n3")
        .tell(struck("clock-jump"), "the clock of n3 jumps by 30 s: its key has expired")
        .tell(acquired("c2"), "client 2 acquires the lock on n3, n4 and n5, while client 1 holds it")
        .expect(Broken("exclusion", "granted-twice"));
    vec![meeting_in_n3(act)]
}
