//! Which clock counts.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, dosed, strike, struck};
use crate::scenarios::expect::Expect::{AllHold, Broken};
use crate::scenarios::tales::patterns::both_ways;
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use serde_json::json;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "etcd-clock-jump",
    source: "E",
    about: "the wall clocks of the members jump both ways; then their monotonic clocks, too",
    expected: "wall clocks: holds; of monotonic clocks nothing is promised, and leases are counted by them: granted twice",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let jump = strike("clock-jump", &["n1", "n2", "n3"], acquired("c1"), Duration::from_secs(3));
    let both = Act::directed("monotonic clocks", "--backend etcd --ttl 10s")
        .part("c1", vec![Acquire, Read, After(acquired("c2")), Write, Release])
        .part(
            "c2",
            vec![After(struck("clock-jump")), Acquire, Read, After(begins("c1", "release")), Write, Release],
        )
        .strike(dosed(jump, json!({"wall_ms": 60_000, "monotonic_ms": 60_000})))
        .tell(acquired("c1"), "client 1 acquires the lock with a lease of 10 s, and keeps it alive")
        .tell(struck("clock-jump"), "both clocks of each member jump by 60 s: the lease has run out")
        .tell(acquired("c2"), "client 2 acquires the lock, which client 1 still holds");
    vec![
        both_ways("etcd").titled("wall clocks").expect(AllHold),
        both.expect(Broken("exclusion", "granted-twice")),
    ]
}
