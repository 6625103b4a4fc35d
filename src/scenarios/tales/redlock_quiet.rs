//! Redlock in peace.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, throughout};
use crate::scenarios::expect::Expect::{AllHold, Look};
use crate::scenarios::expect::{Metric, Seen, completions};
use fencepost_history::Kind;
use fencepost_nemesis::PlannedFault;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-quiet",
    source: "D",
    about: "five nodes, no fault; then with two of them down",
    expected: "holds, and stays available with a minority down",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let arguments = "--backend redlock --clients 3 --concurrency 3 --hold 20ms --time-limit 3s";
    let down = PlannedFault { for_ms: 2500, ..throughout("kill", &["n1", "n2"]) };
    vec![
        Act::free("all five nodes", arguments).expect(AllHold).expect(Look("it is acquired", acquisitions)),
        Act::free("two of five down", arguments)
            .strike(down)
            .expect(AllHold)
            .expect(Look("it is acquired", acquisitions)),
    ]
}

/// Acquisitions in the main phase (with the faults in force).
fn acquisitions(seen: &Seen) -> (bool, String, Vec<Metric>) {
    let count = completions(seen, "acquire").filter(|event| event.kind == Kind::Ok).count();
    let figure = Metric::new("acquisitions", count as f64, "in 3 s");
    (count > 5, format!("acquired {count} times"), vec![figure])
}
