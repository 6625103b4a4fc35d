//! A release in one step.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done, refused, strike, struck};
use crate::scenarios::expect::Expect::AllHold;
use fencepost_engine::Step::{Acquire, After, For, Release};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-lua-release",
    source: "D",
    about: "as redis-get-del, with the script that compares and deletes in one step",
    expected: "holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        Act::directed("", "--backend redis-single --ttl 2s --release lua")
            .part("c1", vec![Acquire, After(struck("pause")), Release])
            .part(
                "c2",
                vec![After(struck("pause")), Acquire, After(refused("c1", "release")), For(A_WHILE), Release],
            )
            .part("c3", vec![After(refused("c1", "release")), Acquire, Release])
            .strike(strike("pause", &["c1"], acquired("c1"), Duration::from_millis(2500)))
            .tell(struck("pause"), "client 1 is stopped as it is about to release")
            .tell(acquired("c2"), "the lease has run out; client 2 acquires the lock")
            .tell(
                refused("c1", "release"),
                "client 1 wakes and releases: the lock is not its own any more, and stays",
            )
            .tell(done("c2", "release"), "client 2 releases")
            .tell(acquired("c3"), "client 3 acquires the lock, only now")
            .expect(AllHold),
    ]
}

/// Long enough for client 3 to take a lock that were free.
const A_WHILE: Duration = Duration::from_millis(500);
