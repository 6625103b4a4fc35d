//! A lock whose value says nothing about its holder.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done};
use crate::scenarios::expect::Expect::Broken;
use fencepost_engine::Step::{Acquire, After, Release};

pub const SCENARIO: Scenario = Scenario {
    name: "redis-fixed-value",
    source: "D",
    about: "every client sets the same value; client 1 outlives its TTL and releases what is by now the lock of client 2; client 3 acquires",
    expected: "broken: ownership, granted twice",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        Act::directed("", "--backend redis-single --ttl 2s --value fixed")
            .part("c1", vec![Acquire, After(acquired("c2")), Release])
            .part("c2", vec![After(acquired("c1")), Acquire, After(acquired("c3")), Release])
            .part("c3", vec![After(done("c1", "release")), Acquire, Release])
            .tell(acquired("c1"), "client 1 acquires the lock, and takes longer than its TTL")
            .tell(acquired("c2"), "the lease has run out; client 2 acquires the lock")
            .tell(done("c1", "release"), "client 1 releases: the value is the one that it set")
            .tell(acquired("c3"), "client 3 acquires the lock, which client 2 still holds")
            .expect(Broken("ownership", "removed-by-another"))
            .expect(Broken("exclusion", "granted-twice")),
    ]
}
