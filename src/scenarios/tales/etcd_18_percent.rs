//! How much is lost.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, later, strike, struck};
use crate::scenarios::expect::Expect::{Broken, Look};
use crate::scenarios::expect::{Metric, Seen};
use fencepost_nemesis::{PlannedFault, Trigger};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "etcd-18-percent",
    source: "E",
    about: "leases of 2 s, five processes that add to a set under the lock, sections of 0 to 2 s, members stopped every 5 s; without the recheck, as etcd 3.4.3 was",
    expected: "acknowledged updates are lost, about 18 % in the source",
    acts,
    differs: None,
};

const STOPS: u64 = 8;
/// From the end of one stop to the next.
const REST: Duration = Duration::from_secs(2);

fn acts() -> Vec<Act> {
    let arguments = "--backend etcd --no-recheck --workload set --ttl 2s --hold 1s --clients 5 --concurrency 5 --acquire-timeout 10s \
                     --time-limit 47s";
    let all = ["n1", "n2", "n3"];
    let stop = Duration::from_secs(3);
    let first = later(PlannedFault { when: None, ..strike("pause", &all, struck("pause"), stop) }, REST);
    // Each waits for the one before to be over: on a busy machine waking them may take its time.
    let others = (1..STOPS).map(|number| {
        let over = Trigger { times: 2 * number, ..struck("pause") };
        later(strike("pause", &all, over, stop), REST)
    });
    let act = others.fold(Act::free("", arguments).strike(first), Act::strike);
    vec![act.expect(Broken("lost-additions", "lost-addition")).expect(Look("the share that is lost", share))]
}

fn share(seen: &Seen) -> (bool, String, Vec<Metric>) {
    let figures: Vec<Metric> =
        seen.verdict.metrics.iter().filter(|figure| figure.unit == "%").cloned().collect();
    let observed = "the source lost about 18 % in its own runs".to_owned();
    (figures.iter().any(|figure| figure.value > 0.0), observed, figures)
}
