//! A node that does not forget.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, healed, strike, struck};
use crate::scenarios::expect::Expect::AllHold;
use crate::scenarios::tales::patterns::{both_cut, meeting_in_n3};
use fencepost_engine::Step::{Acquire, After, For, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-fsync-always",
    source: "D",
    about: "as redlock-crash-no-fsync, with appendfsync always",
    expected: "holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let outage = strike("power-loss", &["n3"], acquired("c1"), Duration::from_millis(1));
    let act = Act::directed("", "--backend redlock --ttl 5s --redis-persistence always")
        .part(
            "c1",
            vec![After(both_cut()), Acquire, Read, After(healed("power-loss")), Write, For(A_WHILE), Release],
        )
        .part("c2", vec![After(healed("power-loss")), Acquire, Read, Write, Release])
        .strike(outage)
        .tell(acquired("c1"), "client 1 acquires the lock on n1, n2 and n3")
        .tell(struck("power-loss"), "n3 loses its power; the lock was on its disk")
        .tell(begins("c1", "release"), "client 1 releases")
        .tell(acquired("c2"), "client 2 acquires the lock, only now")
        .expect(AllHold);
    vec![meeting_in_n3(act)]
}

/// Long enough for client 2 to take a lock that were free.
const A_WHILE: Duration = Duration::from_millis(700);
