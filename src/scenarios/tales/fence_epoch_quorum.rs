//! Fencing without an oracle.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, done, healed, refused, strike, struck};
use crate::scenarios::expect::Expect::{Broken, Holds};
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "fence-epoch-quorum",
    source: "J",
    about: "the storage is three replicas; each writer marks its epoch on a majority first; an old writer wakes",
    expected: "holds; with the mark left out: broken",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        story("marked", "epoch-quorum")
            .tell(refused("c1", "write"), "a majority has seen a later epoch, and refuses")
            .expect(Holds("lost-updates"))
            .expect(Holds("stale-writes")),
        story("not marked", "epoch-quorum-unmarked")
            .tell(done("c1", "write"), "no replica has heard of client 2 yet: they accept")
            .expect(Broken("lost-updates", "lost-update")),
    ]
}

fn story(title: &'static str, guard: &str) -> Act {
    Act::directed(title, &format!("--backend etcd --ttl 2s --guard {guard}"))
        .part("c1", vec![Acquire, Read, After(acquired("c2")), Write, Release])
        .part(
            "c2",
            vec![After(struck("pause")), Acquire, Read, After(begins("c1", "release")), Write, Release],
        )
        .strike(strike("pause", &["c1"], done("c1", "read"), Duration::from_millis(4000)))
        .tell(acquired("c1"), "client 1 acquires the lock, and reads")
        .tell(struck("pause"), "client 1 is stopped")
        .tell(done("c2", "read"), "the lease has run out; client 2 acquires the lock, and reads")
        .tell(healed("pause"), "client 1 wakes and writes")
        .tell(done("c2", "write"), "client 2 writes")
}
