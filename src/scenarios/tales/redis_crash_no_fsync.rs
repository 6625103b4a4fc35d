//! A lock that is only in memory.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, healed, strike, struck};
use crate::scenarios::expect::Expect::{AllHold, Broken};
use fencepost_engine::Step::{Acquire, After, For, Read, Release, Write};
use fencepost_nemesis::PlannedFault;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-crash-no-fsync",
    source: "D",
    about: "the node loses its power with the lock not fsynced, and restarts at once",
    expected: "broken without fsync: granted twice; with appendfsync always it holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    // With `everysec` it depends on whether the fsync of that second has come already; without persistence it does not.
    let forgetful =
        Act::directed("no persistence", "--backend redis-single --ttl 5s --redis-persistence none")
            .part("c1", vec![Acquire, Read, After(acquired("c2")), Write, Release])
            .part(
                "c2",
                vec![
                    After(healed("power-loss")),
                    Acquire,
                    Read,
                    After(begins("c1", "release")),
                    Write,
                    Release,
                ],
            )
            .strike(outage())
            .tell(acquired("c1"), "client 1 acquires the lock for 5 s")
            .tell(struck("power-loss"), "the node loses its power, and what it had not fsynced")
            .tell(healed("power-loss"), "the node is back at once")
            .tell(acquired("c2"), "it has forgotten the lock: client 2 acquires it, while client 1 holds it")
            .expect(Broken("exclusion", "granted-twice"));
    let durable =
        Act::directed("appendfsync always", "--backend redis-single --ttl 5s --redis-persistence always")
            .part("c1", vec![Acquire, Read, After(healed("power-loss")), Write, For(A_WHILE), Release])
            .part("c2", vec![After(healed("power-loss")), Acquire, Read, Write, Release])
            .strike(outage())
            .tell(struck("power-loss"), "the node loses its power; the lock was on the disk")
            .tell(begins("c1", "release"), "client 1 releases")
            .tell(acquired("c2"), "client 2 acquires the lock, only now")
            .expect(AllHold);
    vec![forgetful, durable]
}

fn outage() -> PlannedFault {
    strike("power-loss", &["n1"], acquired("c1"), Duration::from_millis(1))
}

/// Long enough for client 2 to take a lock that were free.
const A_WHILE: Duration = Duration::from_millis(700);
