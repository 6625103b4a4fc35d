//! Redlock has nothing to make a fencing token from.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done, healed, strike};
use crate::scenarios::expect::Expect::Broken;
use crate::scenarios::tales::patterns::{both_cut, meeting_in_n3};
use fencepost_engine::Step::{Acquire, After, Release};
use fencepost_nemesis::Trigger;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-token-counter",
    source: "K",
    about: "fencing tokens from a counter on one Redis node, or on each node (the highest of a majority); a node loses its data",
    expected: "broken: tokens repeat or go back",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let one = Act::directed("one counter", "--backend redlock --ttl 2s --token incr-one")
        .part("c1", vec![Acquire, Release, Acquire, Release, After(healed("power-loss")), Acquire, Release])
        .part("c2", vec![After(acquired("c1")), Acquire, Release])
        .strike(strike("power-loss", &["n1"], twice_released(), Duration::from_millis(1)))
        .tell(twice_released(), "two acquisitions have got their tokens from the counter on n1")
        .tell(healed("power-loss"), "n1 has lost its power and its counter, and is back")
        .expect(Broken("fencing", "token-not-greater"));
    let each = Act::directed("a counter on each node", "--backend redlock --ttl 2s --token incr-each")
        .part("c1", vec![After(both_cut()), Acquire, Release, Acquire, Release, Acquire, Release])
        .part("c2", vec![After(healed("power-loss")), Acquire, Release])
        .strike(strike("power-loss", &["n3"], all_released(), Duration::from_millis(1)))
        .tell(all_released(), "client 1 has acquired the lock on n1, n2 and n3, three times")
        .tell(
            healed("power-loss"),
            "n3, where the majorities meet, has lost its power and its counter, and is back",
        )
        .tell(acquired("c2"), "client 2 acquires it on n3, n4 and n5, where nobody has counted")
        .expect(Broken("fencing", "token-not-greater"));
    vec![one, meeting_in_n3(each)]
}

fn twice_released() -> Trigger {
    Trigger { times: 2, ..done("c1", "release") }
}

fn all_released() -> Trigger {
    Trigger { times: 3, ..done("c1", "release") }
}
