//! Consensus keeps the grant single, not the holder honest.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, refused};
use crate::scenarios::expect::Expect::{Broken, Holds};
use crate::scenarios::tales::patterns::outstayed;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "etcd-lease-pause",
    source: "E",
    about: "keepalive stops with the client, past the TTL of the lease",
    expected: "broken: overstayed; with the key's create revision as token the data holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let stopped = Duration::from_millis(4500);
    vec![
        outstayed("no guard", "--backend etcd --ttl 2s", stopped)
            .expect(Broken("exclusion", "overstayed"))
            .expect(Broken("lost-updates", "lost-update")),
        outstayed("token: the key's create revision", "--backend etcd --ttl 2s --guard token", stopped)
            .tell(refused("c1", "write"), "the storage rejects the write of client 1: its token is old")
            .expect(Holds("lost-updates"))
            .expect(Holds("stale-writes")),
    ]
}
