//! A release in two steps.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done, lingers, strike, struck};
use crate::scenarios::expect::Expect::{Broken, Look};
use crate::scenarios::expect::{Metric, Seen};
use fencepost_engine::Step::{Acquire, After, Release};
use fencepost_history::{Event, Kind, Process};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redis-get-del",
    source: "D",
    about: "release by GET, compare and DEL in the client, which is stopped between GET and DEL",
    expected: "broken: ownership",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    let arguments = "--backend redis-single --ttl 2s --release get-del --pause-at between-get-and-del=300ms";
    let point = || lingers("c1", "between-get-and-del");
    vec![
        Act::directed("", arguments)
            .part("c1", vec![Acquire, Release])
            .part("c2", vec![After(struck("pause")), Acquire, After(acquired("c3")), Release])
            .part("c3", vec![After(done("c1", "release")), Acquire, Release])
            .strike(strike("pause", &["c1"], point(), Duration::from_millis(2500)))
            .tell(point(), "client 1 releases: GET says that the lock is its own")
            .tell(struck("pause"), "client 1 is stopped before it sends DEL")
            .tell(acquired("c2"), "the lease has run out; client 2 acquires the lock")
            .tell(done("c1", "release"), "client 1 wakes and deletes the lock of client 2")
            .tell(acquired("c3"), "client 3 acquires the lock, which client 2 still holds")
            .expect(Look("broken: ownership", removed))
            .expect(Broken("exclusion", "granted-twice")),
    ]
}

/// The release of client 1 removed a lock, and the lock of client 2 was gone then: client 3 could acquire it, although
/// client 2 had not begun to release and its TTL was still running (that it was granted twice says so).
fn removed(seen: &Seen) -> (bool, String, Vec<Metric>) {
    let of = |process, f: &str, kind| {
        seen.history.iter().find(move |event: &&Event| {
            event.process == Process::Client(process) && event.f == f && event.kind == kind
        })
    };
    let release = of(0, "release", Kind::Ok).filter(|release| release.value["removed"] == true);
    let (held, next) = (of(1, "acquire", Kind::Ok), of(2, "acquire", Kind::Ok));
    let (Some(release), Some(held), Some(next)) = (release, held, next) else {
        return (false, "the release of client 1 removed nothing".to_owned(), Vec::new());
    };
    let still_held = of(1, "release", Kind::Invoke).is_none_or(|release| release.time > next.time);
    let met = held.time < release.time && still_held;
    let observed = match met {
        true => {
            "the release of client 1 removed a lock after client 2 had been granted it, and before client 2 released"
        }
        false => "what the release of client 1 removed was no lock of client 2",
    };
    (met, observed.to_owned(), Vec::new())
}
