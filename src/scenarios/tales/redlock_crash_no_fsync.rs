//! A node that forgets.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, healed, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use crate::scenarios::tales::patterns::{both_cut, meeting_in_n3};
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-crash-no-fsync",
    source: "K, D",
    about: "as redlock-clock-jump, but C loses its power and what it had not fsynced, and restarts at once",
    expected: "broken: granted twice",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let outage = strike("power-loss", &["n3"], acquired("c1"), Duration::from_millis(1));
    let act = Act::directed("", "--backend redlock --ttl 5s --redis-persistence none")
        .part("c1", vec![After(both_cut()), Acquire, Read, After(acquired("c2")), Write, Release])
        .part(
            "c2",
            vec![After(healed("power-loss")), Acquire, Read, After(begins("c1", "release")), Write, Release],
        )
        .strike(outage)
        .tell(acquired("c1"), "client 1 acquires the lock on n1, n2 and n3")
        .tell(struck("power-loss"), "n3 loses its power, and what it had not fsynced")
        .tell(healed("power-loss"), "n3 is back at once")
        .tell(
            acquired("c2"),
            "n3 has forgotten: client 2 acquires the lock on n3, n4 and n5, while client 1 holds it",
        )
        .expect(Broken("exclusion", "granted-twice"));
    vec![meeting_in_n3(act)]
}
