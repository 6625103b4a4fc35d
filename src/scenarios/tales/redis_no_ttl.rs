//! Why a lock needs a TTL at all.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, refused, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use fencepost_engine::Step::{Acquire, After, Try};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-no-ttl",
    source: "a lock without a TTL, before any of the articles",
    about: "a lock without a TTL; its holder is killed",
    expected: "broken: deadlock",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        Act::directed("", "--backend redis-single --ttl 2s --acquire no-ttl")
            .doomed("c1", vec![Acquire, After(struck("kill"))])
            .part("c2", vec![After(struck("kill")), Try])
            .strike(strike("kill", &["c1"], acquired("c1"), Duration::from_secs(60)))
            .tell(acquired("c1"), "client 1 acquires the lock, which never expires")
            .tell(struck("kill"), "client 1 is killed")
            .tell(refused("c2", "acquire"), "client 2 tries for 2 s, in vain")
            .expect(Broken("progress", "stuck")),
    ]
}
