//! Why Redlock releases on all nodes.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired, done, partition, refused, struck};
use crate::scenarios::expect::Expect::Look;
use crate::scenarios::expect::{Metric, Seen};
use fencepost_engine::Step::{Acquire, After, Release, Try};
use fencepost_history::{Kind, Process};
use fencepost_nemesis::{PlannedFault, Trigger};

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-lost-reply",
    source: "D",
    about: "the reply of node C to SET is lost on the way, and the acquire fails; then the next client comes",
    expected: "released on all nodes: the next acquire is immediate; released only where SET was seen to succeed: C stays locked for the TTL",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        story("release on all nodes", "all").expect(Look("the next acquire is immediate", immediate)),
        story("release where SET was seen to succeed", "seen")
            .expect(Look("the next acquire waits for the TTL", waits)),
    ]
}

fn story(title: &'static str, release: &str) -> Act {
    let arguments = format!("--backend redlock --ttl 4s --acquire-timeout 100ms --release-where {release}");
    // The connection to C must be there already: what is lost is the answer, not the handshake. And the attempt must be
    // over before TCP, which hears no acknowledgement, sends nothing new for it (200 ms).
    let act = Act::directed(title, &arguments)
        .part("c1", vec![Acquire, Release, After(all_cut()), Try])
        .part("c2", vec![After(refused("c1", "acquire")), Acquire, Release])
        .tell(refused("c1", "acquire"), "client 1 has no majority, and gives up")
        .tell(
            all_cut(),
            "answers of n3 to client 1 are lost; n4 and n5 are out of its reach, n1 and n2 out of client 2's",
        )
        .tell(acquired("c2"), "client 2 acquires the lock on n3, n4 and n5");
    let cuts = ["c1<n3", "c1|n4,n5", "c2|n1,n2"]
        .map(|groups| PlannedFault { when: Some(done("c1", "release")), ..partition(groups, &act) });
    cuts.into_iter().fold(act, Act::strike)
}

fn all_cut() -> Trigger {
    Trigger { times: 3, ..struck("partition") }
}

/// How long client 2 took to acquire, in seconds.
fn time_to_acquire(seen: &Seen) -> Option<f64> {
    let mut acquires =
        seen.history.iter().filter(|event| event.f == "acquire" && event.process == Process::Client(1));
    let invoked = acquires.next()?.time;
    let granted = acquires.find(|event| event.kind == Kind::Ok)?.time;
    Some((granted - invoked) as f64 / 1e9)
}

fn told(seen: &Seen, met: fn(f64) -> bool) -> (bool, String, Vec<Metric>) {
    let Some(seconds) = time_to_acquire(seen) else {
        return (false, "client 2 never acquired the lock".to_owned(), Vec::new());
    };
    let figure = Metric::new("time to acquire", seconds, "s");
    (met(seconds), format!("client 2 acquired the lock after {seconds:.2} s"), vec![figure])
}

fn immediate(seen: &Seen) -> (bool, String, Vec<Metric>) {
    told(seen, |seconds| seconds < 1.0)
}

fn waits(seen: &Seen) -> (bool, String, Vec<Metric>) {
    told(seen, |seconds| seconds > 2.0)
}
