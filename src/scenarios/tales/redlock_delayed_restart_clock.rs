//! A delay is measured by a clock, too.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, dosed, healed, later, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use crate::scenarios::tales::patterns::{both_cut, meeting_in_n3};
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use serde_json::json;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-delayed-restart-clock",
    source: "K",
    about: "as redlock-delayed-restart, but the delay is measured by the node's clock, which jumps",
    expected: "broken: granted twice",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let outage = strike("power-loss", &["n3"], acquired("c1"), Duration::from_millis(1));
    // A second for the supervisor to begin to wait: one that looked at the clock after the jump would wait for too long.
    let jump = strike("clock-jump", &["n3"], struck("power-loss"), Duration::from_secs(2));
    let jump = later(jump, Duration::from_secs(1));
    let act = Act::directed("", "--backend redlock --ttl 5s")
        .part("c1", vec![After(both_cut()), Acquire, Read, After(acquired("c2")), Write, Release])
        .part(
            "c2",
            vec![After(healed("power-loss")), Acquire, Read, After(begins("c1", "release")), Write, Release],
        )
        .strike(dosed(outage, json!({"supervised_ms": 6000})))
        .strike(dosed(jump, json!({"wall_ms": 30_000})))
        .tell(acquired("c1"), "client 1 acquires the lock on n1, n2 and n3, for 5 s")
        .tell(struck("power-loss"), "n3 loses its power; its supervisor is to start it again after 6 s")
        .tell(struck("clock-jump"), "the clock of n3 jumps by 30 s: to the supervisor the 6 s are over")
        .tell(healed("power-loss"), "n3 is back, long before the lease has run out")
        .tell(acquired("c2"), "client 2 acquires the lock on n3, n4 and n5, while client 1 holds it")
        .expect(Broken("exclusion", "granted-twice"));
    vec![meeting_in_n3(act)]
}
