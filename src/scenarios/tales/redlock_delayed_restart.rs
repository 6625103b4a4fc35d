//! A node that forgets, and waits.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, healed, strike, struck};
use crate::scenarios::expect::Expect::AllHold;
use crate::scenarios::tales::patterns::{both_cut, meeting_in_n3};
use fencepost_engine::Step::{Acquire, After, Holds, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-delayed-restart",
    source: "D, A",
    about: "as redlock-crash-no-fsync, but C stays down for longer than the TTL",
    expected: "holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let outage = strike("power-loss", &["n3"], acquired("c1"), Duration::from_millis(2500));
    let act = Act::directed("", "--backend redlock --ttl 2s --acquire-timeout 6s --careful")
        .part(
            "c1",
            vec![After(both_cut()), Acquire, Read, Write, After(healed("power-loss")), Holds, Release],
        )
        .part("c2", vec![After(struck("power-loss")), Acquire, Read, Write, Release])
        .strike(outage)
        .tell(acquired("c1"), "client 1 acquires the lock on n1, n2 and n3, for 2 s")
        .tell(struck("power-loss"), "n3 loses its power and all that it knew, and stays down for 2.5 s")
        .tell(healed("power-loss"), "n3 is back; the lease of client 1 has run out meanwhile, and it knows")
        .tell(acquired("c2"), "client 2 acquires the lock")
        .expect(AllHold);
    vec![meeting_in_n3(act)]
}
