//! How much clocks may differ.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, dosed, struck, throughout};
use crate::scenarios::expect::Expect::{AllHold, Broken};
use fencepost_engine::Step::{Acquire, After, Read, Release, Write};
use serde_json::json;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-drift",
    source: "A",
    about: "the clocks of all nodes drift, within the allowance of the recipe (1 % of the TTL) and beyond it",
    expected: "within the allowance it holds; beyond it: broken",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        story("0.8 % fast", 8_000).expect(AllHold),
        story("50 % fast", 500_000).expect(Broken("exclusion", "granted-twice")),
    ]
}

/// Client 1 looks at its validity before it writes, and goes as far as it may.
fn story(title: &'static str, ppm: i64) -> Act {
    let drift = throughout("clock-drift", &["n1", "n2", "n3", "n4", "n5"]);
    Act::directed(title, "--backend redlock --ttl 4s --acquire-timeout 8s --careful")
        .part("c1", vec![After(struck("clock-drift")), Acquire, Read, After(acquired("c2")), Write, Release])
        .part("c2", vec![After(acquired("c1")), Acquire, Read, Write, Release])
        .strike(dosed(drift, json!({"clock": "wall", "model": "linear", "drift_ppm": ppm})))
        .tell(struck("clock-drift"), "the clocks of all nodes run fast")
        .tell(acquired("c1"), "client 1 acquires the lock for 4 s, and keeps it as long as it may")
        .tell(acquired("c2"), "client 2 acquires the lock")
}
