//! Who does not look at the wall clock does not care.

use crate::scenarios::Scenario;
use crate::scenarios::act::Act;
use crate::scenarios::expect::Expect::AllHold;
use crate::scenarios::tales::patterns::both_ways;

pub const SCENARIO: Scenario = Scenario {
    name: "zookeeper-clock-jump",
    source: "the counterpart of redis-clock-jump",
    about: "the wall clocks of the servers jump both ways while a client holds the lock",
    expected: "holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![both_ways("zookeeper-sequential").expect(AllHold)]
}
