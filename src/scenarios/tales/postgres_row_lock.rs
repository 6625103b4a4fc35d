//! Lock and data in one place.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, done, partition, struck};
use crate::scenarios::expect::Expect::{Broken, Holds};
use crate::scenarios::tales::patterns::outstayed;
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use fencepost_nemesis::PlannedFault;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "postgres-row-lock",
    source: "K",
    about: "lock and data in one transactional database; the client is stopped, its connection dies",
    expected: "holds, by SELECT FOR UPDATE and by a version check; a session lock that protects data elsewhere: broken",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let stopped = Duration::from_millis(5000);
    let advisory = Act::directed(
        "a session advisory lock, data elsewhere",
        "--backend postgres-advisory --ttl 2s --acquire-timeout 10s",
    );
    let cut = PlannedFault {
        when: Some(done("c1", "read")),
        ..partition("c1|n1", &advisory.clone().part("c1", vec![]))
    };
    let advisory = advisory
        .part("c1", vec![Acquire, Read, After(done("c2", "read")), Write, Release])
        .part(
            "c2",
            vec![After(struck("partition")), Acquire, Read, After(begins("c1", "release")), Write, Release],
        )
        .strike(cut)
        .tell(acquired("c1"), "client 1 acquires the advisory lock")
        .tell(struck("partition"), "its connection to the database dies silently")
        .tell(acquired("c2"), "the server has given the connection up; client 2 acquires the lock")
        .tell(done("c1", "write"), "client 1 knows nothing of it, and writes to the storage");
    vec![
        outstayed("SELECT FOR UPDATE", "--backend postgres-row --ttl 2s --acquire-timeout 10s", stopped)
            .expect(Holds("lost-updates")),
        outstayed("a version check in the transaction", "--backend postgres-version --ttl 2s", stopped)
            .expect(Holds("lost-updates")),
        advisory.expect(Broken("lost-updates", "lost-update")),
    ]
}
