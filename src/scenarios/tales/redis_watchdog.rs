//! A lease that is renewed while its holder lives.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins};
use crate::scenarios::expect::Expect::{AllHold, Broken};
use crate::scenarios::tales::patterns::outstayed;
use fencepost_engine::Step::{Acquire, After, For, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-watchdog",
    source: "watchdogs, as Redisson has them",
    about: "a watchdog renews at a third of the TTL; the critical section takes three TTLs",
    expected: "holds; with the client stopped past the TTL, watchdog and all: broken, overstayed",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let long =
        Act::directed("a long section", "--backend redis-single --ttl 1s --watchdog --acquire-timeout 8s")
            .part("c1", vec![Acquire, Read, For(Duration::from_secs(3)), Write, Release])
            .part("c2", vec![After(acquired("c1")), Acquire, Read, Write, Release])
            .tell(acquired("c1"), "client 1 acquires the lock for 1 s, and works for 3 s")
            .tell(begins("c1", "release"), "client 1 releases: its watchdog has kept the lock")
            .tell(acquired("c2"), "client 2 acquires the lock, only now")
            .expect(AllHold);
    let stopped = outstayed(
        "the client is stopped, its watchdog with it",
        "--backend redis-single --ttl 1s --watchdog",
        Duration::from_millis(2500),
    );
    vec![long, stopped.expect(Broken("exclusion", "overstayed"))]
}
