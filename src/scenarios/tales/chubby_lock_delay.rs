//! Time for what is late.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done, strike, struck};
use crate::scenarios::expect::Expect::{Broken, Holds};
use crate::scenarios::tales::patterns::outstayed;
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "chubby-lock-delay",
    source: "C (the recipe on etcd: Chubby is not public)",
    about: "a holder is lost without a release; the lock stays taken for the lock-delay; late writes arrive within it, and after it",
    expected: "within: holds without any guard; after: broken",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let within = Act::directed(
        "within the lock-delay",
        "--backend chubby --lock-delay 5s --ttl 2s --acquire-timeout 12s",
    )
    .part("c1", vec![Acquire, Read, After(struck("pause")), Write])
    .part("c2", vec![After(struck("pause")), Acquire, Read, Write, Release])
    .strike(strike("pause", &["c1"], done("c1", "read"), Duration::from_millis(4000)))
    .tell(acquired("c1"), "client 1 acquires the lock")
    .tell(struck("pause"), "client 1 is stopped for longer than its lease")
    .tell(done("c1", "write"), "client 1 wakes and writes; the lock is nobody's, and not free yet")
    .tell(acquired("c2"), "the lock-delay is over; client 2 acquires the lock")
    .expect(Holds("lost-updates"))
    .expect(Holds("exclusion"));
    let after = outstayed(
        "after the lock-delay",
        "--backend chubby --lock-delay 1s --ttl 2s --acquire-timeout 12s",
        Duration::from_secs(8),
    );
    vec![
        within,
        after.expect(Broken("lost-updates", "lost-update")).expect(Broken("exclusion", "overstayed")),
    ]
}
