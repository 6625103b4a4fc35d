//! A storage that asks.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, refused};
use crate::scenarios::expect::Expect::Holds;
use crate::scenarios::tales::patterns::outstayed;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "chubby-sequencer",
    source: "C (the recipe on etcd: Chubby is not public)",
    about: "the holder passes (name, mode, generation) along; the storage asks the lock service whether it is still valid",
    expected: "holds for requests that arrive after the lock was lost",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let arguments = "--backend chubby --lock-delay 1s --ttl 2s --acquire-timeout 12s --guard sequencer";
    vec![
        outstayed("", arguments, Duration::from_secs(8))
            .tell(
                refused("c1", "write"),
                "the storage asks the lock service, and rejects the write of client 1",
            )
            .expect(Holds("lost-updates"))
            .expect(Holds("stale-writes")),
    ]
}
