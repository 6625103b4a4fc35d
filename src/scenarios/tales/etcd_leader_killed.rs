//! A minority fails.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, later, partition, strike, struck};
use crate::scenarios::expect::Expect::{AllHold, Look};
use crate::scenarios::expect::{Metric, Seen, completions};
use fencepost_history::{Event, Kind, f};
use fencepost_nemesis::{PlannedFault, Trigger};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "etcd-leader-killed",
    source: "E",
    about: "the leader of five members is killed, and another member is cut off; three times",
    expected: "holds, and is available again within 8 s",
    acts,
    differs: None,
};

/// An election takes one to two seconds, and often a second round, since the three members that are left have to agree,
/// all of them. What a process had under way when the leader died can hold the lock for a lease of 2 s more.
const BOUND_S: f64 = 8.0;
/// One death proves little about the next.
const DEATHS: u64 = 3;
const DEAD: Duration = Duration::from_secs(9);
/// Between two deaths, for the members to come together again.
const REST: Duration = Duration::from_secs(2);

fn acts() -> Vec<Act> {
    let act =
        Act::free("", "--backend etcd --nodes 5 --clients 3 --concurrency 3 --hold 20ms --time-limit 36s");
    let cut = partition("n5|n1,n2,n3,n4,c1,c2,c3", &act);
    let strikes = (0..DEATHS).flat_map(|number| {
        // The first one at a time of its own, the others once the one before was healed.
        let over = (number > 0).then(|| Trigger { times: 2 * number, ..struck("leader-kill") });
        let killed = strike("leader-kill", &["leader"], struck("leader-kill"), DEAD);
        let cut = PlannedFault { for_ms: killed.for_ms, ..cut.clone() };
        [killed, cut].map(|fault| later(PlannedFault { when: over.clone(), ..fault }, REST))
    });
    let act = strikes.fold(act, Act::strike);
    vec![act.expect(AllHold).expect(Look("available again within 8 s", recovers))]
}

/// Times from the death of a leader to the next acquire that was granted, the shortest first.
fn recoveries(seen: &Seen) -> Vec<f64> {
    let dies = |event: &&Event| {
        event.f == "leader-kill" && event.kind == Kind::Ok && event.value["stage"] == "inject"
    };
    let recovery = |dead: &Event| {
        let granted =
            completions(seen, f::ACQUIRE).find(|event| event.time > dead.time && event.kind == Kind::Ok);
        granted.map_or(f64::INFINITY, |granted| (granted.time - dead.time) as f64 / 1e9)
    };
    let mut recoveries: Vec<f64> = seen.history.iter().filter(dies).map(recovery).collect();
    recoveries.sort_unstable_by(f64::total_cmp);
    recoveries
}

fn recovers(seen: &Seen) -> (bool, String, Vec<Metric>) {
    let recoveries = recoveries(seen);
    let Some(&median) = recoveries.get(recoveries.len() / 2) else {
        return (false, "the leader did not die".to_owned(), Vec::new());
    };
    let told: Vec<String> = recoveries.iter().map(|seconds| format!("{seconds:.2} s")).collect();
    (
        median < BOUND_S,
        format!("{} after a leader's death somebody acquired the lock", told.join(", ")),
        vec![Metric::new("time to recover, median", median, "s")],
    )
}
