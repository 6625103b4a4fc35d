//! A lock that is taken and made to expire in two steps.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, lingers, refused, strike, struck};
use crate::scenarios::expect::Expect::Broken;
use fencepost_engine::Step::{Acquire, After, Try};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-setnx-expire",
    source: "D",
    about: "SETNX and then EXPIRE, in two commands; the client is killed between them",
    expected: "broken: deadlock, nobody acquires ever again",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let arguments =
        "--backend redis-single --ttl 2s --acquire setnx-expire --pause-at between-setnx-and-expire=2s";
    let point = || lingers("c1", "between-setnx-and-expire");
    vec![
        Act::directed("", arguments)
            .doomed("c1", vec![Acquire])
            .part("c2", vec![After(struck("kill")), Try])
            .strike(strike("kill", &["c1"], point(), Duration::from_secs(60)))
            .tell(point(), "client 1 has taken the lock with SETNX, and has not sent EXPIRE yet")
            .tell(struck("kill"), "client 1 is killed: the lock has no TTL")
            .tell(refused("c2", "acquire"), "client 2 tries for 2 s, in vain")
            .expect(Broken("progress", "stuck")),
    ]
}
