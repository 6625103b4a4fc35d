//! Looking at the clock before the write.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done, lingers, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-check-then-pause",
    source: "K",
    about: "as redis-expiry-pause, but client 1 looks at its validity first, and is stopped between the look and the write",
    expected: "broken all the same: a look before the write does not help",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let arguments = "--backend redis-single --ttl 2s --careful --pause-at between-check-and-write=300ms";
    vec![
        Act::directed("", arguments)
            .part("c1", vec![Acquire, Read, Write, Release])
            .part("c2", vec![After(struck("pause")), Acquire, Read, Write, Release])
            .strike(strike(
                "pause",
                &["c1"],
                lingers("c1", "between-check-and-write"),
                Duration::from_secs(4),
            ))
            .tell(acquired("c1"), "client 1 acquires the lock")
            .tell(lingers("c1", "between-check-and-write"), "client 1 finds its lease still running")
            .tell(struck("pause"), "client 1 is stopped before it sends its write")
            .tell(acquired("c2"), "the lease has run out; client 2 acquires the lock")
            .tell(done("c2", "write"), "client 2 writes")
            .tell(done("c1", "write"), "client 1 wakes and writes: it has looked already")
            .expect(Broken("lost-updates", "lost-update")),
    ]
}
