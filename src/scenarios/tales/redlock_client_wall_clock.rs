//! What clock the elapsed time is measured by.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, dosed, lingers, refused, strike, struck};
use crate::scenarios::expect::Expect::{AllHold, Broken};
use crate::scenarios::tales::patterns::late_reader;
use serde_json::json;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-client-wall-clock",
    source: "the recipe of D with the wrong clock",
    about: "client 1 measures the time that passed by its wall clock, which jumps backward while it acquires",
    expected: "broken; with a monotonic clock it holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        story("wall clock", "wall")
            .tell(acquired("c1"), "by its clock hardly any time has passed: client 1 calls the lock its own")
            .expect(Broken("exclusion", "granted-twice")),
        story("monotonic clock", "monotonic")
            .tell(
                refused("c1", "acquire"),
                "client 1 sees how late it is, and does not call the lock its own",
            )
            .expect(AllHold),
    ]
}

fn story(title: &'static str, clock: &str) -> Act {
    let jump = strike("clock-jump", &["c1"], lingers("c1", "before-replies"), Duration::from_secs(30));
    let mut act = late_reader(&format!("--client-clock {clock}")).titled(title);
    act.strikes[0].when = Some(struck("clock-jump"));
    act.strike(dosed(jump, json!({"wall_ms": -30_000})))
        .tell(struck("clock-jump"), "the wall clock of client 1 jumps back by 30 s")
}
