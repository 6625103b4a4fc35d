//! WAIT counts replicas; it does not make them agree.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, healed, later, partition, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-failover-wait",
    source: "D; the manual of WAIT",
    about: "as redis-failover, the acquire followed by WAIT 1; the replica that acknowledged is stopped while the other \
            is promoted, and then follows it",
    expected: "WAIT lowers the rate and does not promise exclusion: broken in this schedule",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    // Sentinels promote the replica that has heard most, which is the one that knows of the lock, unless they have seen
    // that it is down (they need a second) before the primary dies.
    let dies =
        later(strike("kill", &["n1"], struck("pause"), Duration::from_secs(60)), Duration::from_millis(2500));
    let act = Act::directed("", "--backend redis-sentinel --wait 1 --ttl 35s --acquire-timeout 2s")
        .part("c1", vec![After(struck("partition")), Acquire, Read, After(acquired("c2")), Write, Release])
        .part(
            "c2",
            vec![After(struck("kill")), Acquire, Read, After(begins("c1", "release")), Write, Release],
        )
        .strike(strike("pause", &["n2"], acquired("c1"), Duration::from_secs(10)))
        .strike(dies)
        .tell(struck("partition"), "the replica n3 stops hearing from the primary n1")
        .tell(acquired("c1"), "client 1 acquires the lock: the replica n2 acknowledges it")
        .tell(struck("pause"), "n2, which knows of the lock, is stopped")
        .tell(struck("kill"), "the primary dies")
        .tell(healed("pause"), "the Sentinels have promoted n3; n2 wakes, follows it, and forgets")
        .tell(acquired("c2"), "client 2 acquires the lock on n3, and n2 acknowledges it");
    let cut = partition("n1|n3", &act);
    vec![act.strike(cut).free_again(Duration::from_secs(30)).expect(Broken("exclusion", "granted-twice"))]
}
