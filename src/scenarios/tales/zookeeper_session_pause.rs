//! A session is a lease.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, refused};
use crate::scenarios::expect::Expect::{Broken, Holds};
use crate::scenarios::tales::patterns::outstayed;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "zookeeper-session-pause",
    source: "K, J",
    about: "the holder of an ephemeral znode is stopped past its session timeout; another creates the znode; the first wakes and writes",
    expected: "broken: overstayed; with the zxid as token the data holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let stopped = Duration::from_millis(5000);
    vec![
        outstayed("no guard", "--backend zookeeper-ephemeral --ttl 2s", stopped)
            .expect(Broken("exclusion", "overstayed"))
            .expect(Broken("lost-updates", "lost-update")),
        outstayed("token: the znode's zxid", "--backend zookeeper-ephemeral --ttl 2s --guard token", stopped)
            .tell(refused("c1", "write"), "the storage rejects the write of client 1: its token is old")
            .expect(Holds("lost-updates"))
            .expect(Holds("stale-writes")),
    ]
}
