//! A token without an order.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done};
use crate::scenarios::expect::Expect::{Broken, Holds};
use crate::scenarios::tales::patterns::late_pair;
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};

pub const SCENARIO: Scenario = Scenario {
    name: "fence-unique-token",
    source: "A, HN (viraptor)",
    about: "check-and-set on a unique value, atomic and not; and an old holder that marks the storage again",
    expected: "atomic: no lost update; not atomic: broken; in both an old holder can still write later",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let again = Act::directed("an old holder marks again", "--backend redlock --ttl 2s --guard unique")
        .part("c1", vec![Acquire, After(done("c2", "write")), Read, Write, Release])
        .part("c2", vec![After(acquired("c1")), Acquire, Read, Write, After(done("c1", "write")), Release])
        .tell(acquired("c1"), "client 1 acquires the lock, and takes longer than its TTL")
        .tell(done("c2", "write"), "client 2 has acquired the lock and written")
        .tell(done("c1", "write"), "client 1 marks the storage as its own, reads, and writes after client 2")
        .expect(Broken("exclusion", "overstayed"))
        .expect(Holds("lost-updates"));
    vec![
        late_pair("check and write in one step", "--backend redlock --ttl 2s --guard unique")
            .expect(Holds("lost-updates")),
        late_pair(
            "check and write in two steps",
            "--backend redlock --ttl 2s --guard unique-racy --storage-linger 1500ms",
        )
        .expect(Broken("lost-updates", "lost-update")),
        again,
    ]
}
