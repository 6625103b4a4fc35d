//! A write that is late.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, done, dosed, healed, strike, struck};
use crate::scenarios::expect::Expect::{Broken, Holds};
use fencepost_engine::Step::{Acquire, After, For, Read, Release, Write};
use serde_json::json;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-packet-delay",
    source: "K; the packets that stayed 90 s in GitHub's network",
    about: "client 1's write is in the network for longer than the TTL; others acquire and write; then the late write arrives",
    expected: "broken without a guard; with fencing tokens the data holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        story("no guard", "--backend redis-single --ttl 2s").expect(Broken("lost-updates", "lost-update")),
        story("tokens (of etcd: Redis has none)", "--backend etcd --ttl 2s --guard token")
            .expect(Holds("lost-updates"))
            .expect(Holds("stale-writes")),
    ]
}

fn story(title: &'static str, arguments: &str) -> Act {
    let late = dosed(
        strike("delay", &["c1"], done("c1", "read"), Duration::from_secs(7)),
        json!({"delay_ms": 5000, "ways": "out", "peers": ["storage"]}),
    );
    Act::directed(title, arguments)
        .part("c1", vec![Acquire, Read, After(struck("delay")), Write, After(healed("delay")), For(SETTLE)])
        .part("c2", vec![After(begins("c1", "write")), Acquire, Read, Write, Release])
        .part("c3", vec![After(done("c2", "write")), Acquire, Read, Write, Release])
        .strike(late)
        .tell(acquired("c1"), "client 1 acquires the lock")
        .tell(begins("c1", "write"), "client 1 sends its write, which the network keeps")
        .tell(done("c2", "write"), "the lease has run out; client 2 acquires the lock and writes")
        .tell(done("c3", "write"), "client 3 does so after it")
        .tell(healed("delay"), "the write of client 1 has arrived")
}

/// What arrives late is taken up within this.
const SETTLE: Duration = Duration::from_millis(500);
