//! No check helps whoever is stopped after it.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, refused};
use crate::scenarios::expect::Expect::{Broken, Holds};
use crate::scenarios::tales::patterns::outstayed;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-pause-after-acquire",
    source: "K; A agrees",
    about: "client 1 is stopped after the check",
    expected: "broken: overstayed; with the guard unique no write is lost (Redlock has no token)",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let stopped = Duration::from_millis(3500);
    vec![
        outstayed("no guard", "--backend redlock --ttl 2s", stopped)
            .expect(Broken("exclusion", "overstayed"))
            .expect(Broken("lost-updates", "lost-update")),
        outstayed("unique", "--backend redlock --ttl 2s --guard unique", stopped)
            .tell(
                refused("c1", "write"),
                "the storage rejects the write of client 1: another has marked it since",
            )
            .expect(Broken("exclusion", "overstayed"))
            .expect(Holds("lost-updates")),
    ]
}
