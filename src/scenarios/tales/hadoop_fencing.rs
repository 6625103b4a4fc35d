//! Making sure that the old one is out.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done, healed, strike, struck};
use crate::scenarios::expect::Expect::{Broken, Holds, Look};
use crate::scenarios::expect::{Metric, Seen, completions};
use fencepost_engine::Step as Line;
use fencepost_engine::Step::{Acquire, After, For, Read, Release, Write};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hadoop-fencing",
    source: "H",
    about: "the new active node finds the breadcrumb of the old one, which is stopped, and kills it, or cuts it off from the storage, before it goes active",
    expected: "holds; with fencing that reports success and does nothing: broken",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        story("killed", "kill")
            .doomed("c1", old_active())
            .expect(Holds("lost-updates"))
            .expect(Look("the old active node is gone", gone)),
        story("cut off from the storage", "cut").part("c1", old_active()).expect(Holds("lost-updates")),
        story("a lie", "lie")
            .part("c1", old_active())
            .tell(done("c1", "write"), "the old active node wakes, and writes")
            .expect(Broken("lost-updates", "lost-update")),
    ]
}

fn old_active() -> Vec<Line> {
    vec![Acquire, Read, After(acquired("c2")), Write]
}

fn story(title: &'static str, fence: &str) -> Act {
    let arguments = format!("--backend hadoop --ttl 2s --acquire-timeout 8s --fence {fence}");
    Act::directed(title, &arguments)
        .part(
            "c2",
            vec![After(struck("pause")), Acquire, Read, Write, After(healed("pause")), For(A_WHILE), Release],
        )
        .strike(strike("pause", &["c1"], done("c1", "read"), Duration::from_secs(5)))
        .tell(acquired("c1"), "client 1 is elected, leaves its breadcrumb, and is active")
        .tell(struck("pause"), "client 1 is stopped; its session ends")
        .tell(acquired("c2"), "client 2 is elected, finds the breadcrumb, has client 1 fenced, and is active")
        .tell(healed("pause"), "client 1 would wake now")
}

/// Long enough for the write of client 1 to arrive, or not to.
const A_WHILE: Duration = Duration::from_millis(300);

/// The write that waited for client 1 was never answered.
fn gone(seen: &Seen) -> (bool, String, Vec<Metric>) {
    let lost = completions(seen, "write")
        .find(|event| event.error.as_deref().is_some_and(|why| why.starts_with("client-gone")));
    match lost {
        Some(event) => (
            true,
            format!("its last write ended with: {}", event.error.as_deref().unwrap_or_default()),
            Vec::new(),
        ),
        None => (false, "client 1 was still there to answer".to_owned(), Vec::new()),
    }
}
