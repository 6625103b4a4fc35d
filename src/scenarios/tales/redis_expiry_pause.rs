//! The first figure of the debate.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, refused};
use crate::scenarios::expect::Expect::{Broken, Holds};
use crate::scenarios::tales::patterns::outstayed;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-expiry-pause",
    source: "K, figure 1",
    about: "a holder is stopped for longer than its TTL, another acquires and writes, the first wakes and writes",
    expected: "broken: overstayed, lost update; with fencing tokens the data holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let stopped = Duration::from_millis(3500);
    vec![
        outstayed("no guard", "--backend redis-single --ttl 2s", stopped)
            .expect(Broken("exclusion", "overstayed"))
            .expect(Broken("lost-updates", "lost-update")),
        outstayed("tokens (of etcd: Redis has none)", "--backend etcd --ttl 2s --guard token", stopped)
            .tell(refused("c1", "write"), "the storage rejects the write of client 1: its token is old")
            .expect(Holds("lost-updates"))
            .expect(Holds("stale-writes")),
    ]
}
