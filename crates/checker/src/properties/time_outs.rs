//! Time-outs: an acquire ends within its time-out: a program has something else to do afterwards. In a run
//! without faults only a slow machine keeps a library from that. One that does so again and again by more
//! than [`LATE_NS`] is slow in all else, too: the reads and writes of the storage show it, in which no
//! library has a part, or else the answers to `holds`. The first acquire of each process does not count: a
//! library may connect in it, and a virtual machine compile what it does for the first time.

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::metrics::quantile;
use crate::prose::seconds;
use crate::run_index::{Operation, RunIndex};
use crate::verdict::{Finding, Verdict};
use fencepost_history::{RunPhase, f};
use rustc_hash::FxHashSet;

figures! {
    /// How many acquires kept to their time.
    TimeOutsFigures of "time-outs" {
        acquires: u64,
        late: u64,
    }
}

/// By this much an acquire may be late on a machine that has other things to do.
pub const LATE_NS: u64 = 1_000_000_000;

/// The storage answers in some milliseconds, and in 0.2 s and more on emulated machines with late acquires.
pub const SLOW_NS: u64 = 100_000_000;

const LATE_MIN: usize = 3;

pub(super) const TIME_OUTS: Checker = Checker {
    classes: &[FindingClass {
        name: "time-out-overrun",
        meaning: "Without any fault, acquires took much longer than their time-outs.",
        advice: "Do not rely on the library's time-out: run the acquire where you can give it up, or repeat one that does not block.",
    }],
    needs_a_whole_run: true,
    ..Checker::of::<TimeOutsFigures>("time-outs: without faults, an acquire ends within its time-out", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    not_judged_if!(!run.is_in_peace(), "faults were injected, so acquires may take longer");
    let closing_ns = run.phase(RunPhase::Closing).map_or(u64::MAX, |phase| phase.from_ns);
    let mut begun: FxHashSet<u64> = FxHashSet::default();
    let timed: Vec<(&Operation, u64, u64)> = run
        .acquires()
        .filter(|acquire| {
            acquire.invoke.time < closing_ns && !begun.insert(run.nodes.slot_of(acquire.process))
        })
        .filter_map(|acquire| {
            let took = (acquire.invoke.time, acquire.completion?.time);
            Some((acquire, acquire.timeout_ns()?, run.stalls.rest_of(took)))
        })
        .collect();
    not_judged_if!(timed.is_empty(), "no acquire had a time-out");
    let late: Vec<_> =
        timed.iter().filter(|(_, given_ns, took_ns)| *took_ns > given_ns.saturating_add(LATE_NS)).collect();
    let (all, count) = (timed.len(), late.len());
    let is_late = count >= LATE_MIN;
    let others = if is_late { median_of_others(run) } else { None };
    if let Some((what, half_ns)) = others.filter(|&(_, half_ns)| half_ns > SLOW_NS) {
        return Err(NotJudged::because(format!(
            "the machine was too slow: half of all {what}, took more than {}",
            seconds(half_ns)
        )));
    }
    let longest_ns = timed.iter().map(|(_, given_ns, took_ns)| took_ns.saturating_sub(*given_ns));
    let valid = match longest_ns.max().unwrap_or(0) {
        0 => "every acquire ended within its time-out".to_owned(),
        late_ns => format!("no acquire took more than {} longer than its time-out", seconds(late_ns)),
    };
    let worst = late.iter().max_by_key(|(.., took_ns)| *took_ns).filter(|_| is_late);
    let found = worst.map(|&&(worst, given_ns, took_ns)| {
        let [late_by, given, at, took] = [LATE_NS, given_ns, worst.invoke.time, took_ns].map(seconds);
        let sentence = format!(
            "{count} of {all} acquires took more than {late_by} longer than they had been given; process {} gave one {given} at {at}, and \
             it ended after {took}",
            worst.process,
        );
        let time = worst.completion.map_or(worst.invoke.time, |end| end.time);
        let events = late.iter().take(10).map(|(acquire, ..)| acquire.invoke.index).collect();
        Finding::new("time-out-overrun", worst.key, time, events, sentence)
    });
    let figures = TimeOutsFigures { acquires: all as u64, late: count as u64 };
    Ok(checker.judged_by_first(valid, &figures, found.into_iter().collect()))
}

/// What shows how slow the machine was, with its median: storage operations, else questions to holders.
fn median_of_others(run: &RunIndex) -> Option<(&'static str, u64)> {
    let median = |names: &[&str]| {
        let others = run.operations.iter().filter(|operation| names.contains(&operation.f()));
        let mut took: Vec<u64> = others.filter_map(|it| Some(it.completion?.time - it.invoke.time)).collect();
        took.sort_unstable();
        quantile(&took, 0.5)
    };
    let of_storage = "reads and writes of the storage, in which no lock has a part";
    let of_holders = "answers of holders to whether they hold, for which no holder has to wait";
    let storage = median(&[f::READ, f::WRITE]).map(|half_ns| (of_storage, half_ns));
    storage.or_else(|| median(&[f::HOLDS]).map(|half_ns| (of_holders, half_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    fn acquires(took_ms: u64) -> String {
        let acquire = |at: u64| {
            let process = at / 5000 % 2;
            format!(
                "{at} {process} invoke acquire a {{timeout_ms:300}}\n{} {process} fail acquire a null refused-by-library\n",
                at + took_ms
            )
        };
        (0..5).map(|number| acquire(number * 5000)).collect()
    }

    #[test]
    fn accepts_acquires_that_end_by_their_time() {
        let kept = verdict(&TIME_OUTS, &acquires(1299));
        assert_eq!(kept.outcome, Outcome::Valid);
        assert_eq!(kept.summary, "no acquire took more than 0.999 s longer than its time-out");
    }

    #[test]
    fn an_acquire_that_is_late_by_as_much_as_may_be_is_not_late() {
        assert_eq!(verdict(&TIME_OUTS, &acquires(1300)).outcome, Outcome::Valid);
        assert_eq!(verdict(&TIME_OUTS, &acquires(1301)).outcome, Outcome::Violation);
    }

    #[test]
    fn rejects_acquires_that_take_much_longer() {
        let late = verdict(&TIME_OUTS, &acquires(2060));
        assert_eq!(late.outcome, Outcome::Violation);
        assert_eq!(
            late.findings[0].sentence,
            "3 of 3 acquires took more than 1.000 s longer than they had been given; process 0 gave one 0.300 s at 20.000 s, and it ended \
             after 2.060 s"
        );
    }

    #[test]
    fn says_nothing_of_a_machine_that_is_slow_in_all_else_too() {
        let storage = |took_ms: u64| {
            let read = |at: u64| format!("{at} 7 invoke read a null\n{} 7 ok read a 0\n", at + took_ms);
            acquires(2060) + &(10..13).map(|number| read(number * 5000)).collect::<String>()
        };
        assert_eq!(verdict(&TIME_OUTS, &storage(99)).outcome, Outcome::Violation);
        assert_eq!(verdict(&TIME_OUTS, &storage(100)).outcome, Outcome::Violation);
        assert!(maybe_verdict(&TIME_OUTS, &storage(400)).is_none());
    }

    #[test]
    fn the_time_in_which_the_machine_stalled_counts_nowhere() {
        let stalled = |for_ms: u64| {
            let stall = |at: u64| {
                format!("{} nemesis info stalled - {{node:\"c1\",for_ms:{for_ms}}}\n", at * 5000 + 2000)
            };
            verdict(&TIME_OUTS, &(acquires(2060) + &(0..5).map(stall).collect::<String>())).outcome
        };
        assert_eq!(stalled(600), Outcome::Violation, "they were late by 1.1 s beside that");
        assert_eq!(stalled(900), Outcome::Valid);
    }

    #[test]
    fn without_storage_the_answers_of_holders_show_a_slow_machine() {
        let holders = |took_ms: u64| {
            let asked = |at: u64| format!("{at} 7 invoke holds a null\n{} 7 ok holds a true\n", at + took_ms);
            acquires(2060) + &(10..13).map(|number| asked(number * 5000)).collect::<String>()
        };
        assert_eq!(verdict(&TIME_OUTS, &holders(99)).outcome, Outcome::Violation);
        assert!(maybe_verdict(&TIME_OUTS, &holders(400)).is_none());
    }

    #[test]
    fn says_nothing_under_faults_of_the_closing_ones_and_without_a_time_out() {
        let fault = "0 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"]}\n";
        assert!(maybe_verdict(&TIME_OUTS, &(fault.to_owned() + &acquires(2060))).is_none());
        let closing = "0 nemesis info phase - \"closing\"\n";
        assert!(
            maybe_verdict(&TIME_OUTS, &(closing.to_owned() + &acquires(2060).replace("0 0 ", "1 0 ")))
                .is_none()
        );
        assert!(maybe_verdict(&TIME_OUTS, &acquires(2060).replace("timeout_ms", "other")).is_none());
    }
}
