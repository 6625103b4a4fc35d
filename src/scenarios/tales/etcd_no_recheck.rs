//! A place in a queue that is not there any more.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, begins, done, healed, strike, struck};
use crate::scenarios::expect::Expect::{AllHold, Broken};
use fencepost_engine::Step::{Acquire, After, For, Holds, OnlyIfOk, Release, Try};
use fencepost_nemesis::PlannedFault;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "etcd-no-recheck",
    source: "E, issue 11456",
    about: "the lease of a waiter runs out while it waits; it takes the lock all the same when its turn comes",
    expected: "without the recheck: granted to a dead session; with the recheck it holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        story("no recheck", "--no-recheck").expect(Broken("exclusion", "granted-twice")),
        story("recheck", "").expect(AllHold),
    ]
}

fn story(title: &'static str, options: &str) -> Act {
    let queued = PlannedFault {
        at_ms: 300,
        ..strike("pause", &["c2"], begins("c2", "acquire"), Duration::from_millis(6500))
    };
    Act::directed(title, &format!("--backend etcd --ttl 2s --acquire-timeout 9s {options}"))
        .part("c1", vec![Acquire, After(struck("pause")), For(Duration::from_secs(5)), Release])
        .part(
            "c2",
            vec![After(acquired("c1")), Try, OnlyIfOk, For(Duration::from_millis(300)), Holds, Release],
        )
        .part(
            "c3",
            vec![After(done("c1", "release")), Acquire, After(healed("pause")), For(LATER), Holds, Release],
        )
        .strike(queued)
        .tell(acquired("c1"), "client 1 acquires the lock")
        .tell(begins("c2", "acquire"), "client 2 waits for its turn")
        .tell(struck("pause"), "client 2 is stopped; its session ends, and with it its place in the queue")
        .tell(acquired("c3"), "client 1 has released; client 3 acquires the lock")
        .tell(healed("pause"), "client 2 wakes, and sees that client 1 has gone")
}

const LATER: Duration = Duration::from_secs(2);
