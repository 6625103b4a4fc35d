//! Replication of Redis is asynchronous.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, partition, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-failover",
    source: "D",
    about: "client 1 acquires on the primary, which dies before it has replicated the lock; a replica is promoted; client 2 acquires",
    expected: "broken: granted twice",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let act = Act::directed("", "--backend redis-sentinel --ttl 20s --acquire-timeout 15s")
        .part("c1", vec![After(struck("partition")), Acquire, Read, After(acquired("c2")), Write, Release])
        .part(
            "c2",
            vec![After(struck("kill")), Acquire, Read, After(begins("c1", "release")), Write, Release],
        )
        .strike(strike("kill", &["n1"], acquired("c1"), Duration::from_secs(60)))
        .tell(struck("partition"), "the replicas stop hearing from the primary")
        .tell(acquired("c1"), "client 1 acquires the lock on the primary")
        .tell(struck("kill"), "the primary dies; the lock was not replicated")
        .tell(acquired("c2"), "the Sentinels have promoted a replica; client 2 acquires the lock there");
    let cut = partition("n1|n2,n3", &act);
    vec![act.strike(cut).free_again(Duration::from_secs(30)).expect(Broken("exclusion", "granted-twice"))]
}
