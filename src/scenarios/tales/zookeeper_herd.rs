//! Who is woken.

use crate::scenarios::Scenario;
use crate::scenarios::act::Act;
use crate::scenarios::expect::Expect::{AllHold, Look};
use crate::scenarios::expect::{Metric, Seen};
use fencepost_checker::Outcome;

pub const SCENARIO: Scenario = Scenario {
    name: "zookeeper-herd",
    source: "Z",
    about: "50 waiters on one ephemeral znode, and 50 on ephemeral sequential znodes",
    expected: "both hold; the first wakes every waiter at each release, the second one, and grants in order of arrival",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        story("one ephemeral znode", "zookeeper-ephemeral").expect(Look("a release wakes a herd", herd)),
        story("ephemeral sequential znodes", "zookeeper-sequential")
            .expect(Look("a release wakes one, and grants are in order of arrival", queue)),
    ]
}

fn story(title: &'static str, backend: &str) -> Act {
    let arguments = format!(
        "--backend {backend} --workload herd --ttl 10s --hold 20ms --clients 5 --concurrency 50 --acquire-timeout 20s \
         --time-limit 5s"
    );
    Act::free(title, &arguments).expect(AllHold)
}

/// What the clients counted, if it is as it should be.
fn told(seen: &Seen, met: fn(f64) -> bool) -> (bool, Vec<Metric>) {
    let wakeups = seen.verdict.metrics.iter().find(|figure| figure.name.contains("wake-ups")).cloned();
    (wakeups.as_ref().is_some_and(|wakeups| met(wakeups.value)), wakeups.into_iter().collect())
}

fn herd(seen: &Seen) -> (bool, String, Vec<Metric>) {
    let (met, figures) = told(seen, |wakeups| wakeups > 10.0);
    (met, "each release wakes whoever waits".to_owned(), figures)
}

/// The token is the zxid at which the holder's znode was created: when it came to the queue.
fn queue(seen: &Seen) -> (bool, String, Vec<Metric>) {
    let (met, figures) = told(seen, |wakeups| wakeups < 1.1);
    let fencing = seen.verdict.of_checker("fencing");
    let in_order = fencing.is_some_and(|fencing| fencing.outcome == Outcome::Valid);
    let observed = match in_order {
        true => "each release wakes one, and each holder had come to the queue after the one before",
        false => "holders were granted the lock out of the order in which they had come to the queue",
    };
    (met && in_order, observed.to_owned(), figures)
}
