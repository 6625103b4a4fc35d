use crate::coverage::Coverage;
use crate::distance::nearest_miss;
use crate::metrics::{costs, herd, loss_notice};
use crate::properties::{NotJudged, is_claimed, lost_additions, overlaps, registry};
use crate::run_index::RunIndex;
use crate::say_whose::say_whose;
use crate::verdict::{Outcome, RunVerdict, Unjudged, Verdict};
use fencepost_history::{Event, LockKind};
use std::cell::LazyCell;

/// The names of all metrics that a run can have.
pub const METRICS: &[&str] = &[
    lost_additions::LOST,
    herd::WAKEUPS,
    herd::PASSED,
    loss_notice::MEDIAN,
    loss_notice::LONGEST,
    loss_notice::NEVER,
];

/// Judges a run by every checker. A malformed history is `unknown`, by a checker named `history`.
pub fn check_run(events: &[Event]) -> RunVerdict {
    match RunIndex::new(events) {
        Ok(run) => check_index(&run),
        Err(error) => {
            let summary = format!("the history is malformed: {error}");
            RunVerdict::of(vec![Verdict::new("history", Outcome::Unknown, summary)])
        }
    }
}

pub fn check_index(run: &RunIndex) -> RunVerdict {
    let (mut verdicts, mut not_judged) = (Vec::new(), Vec::new());
    let overlaps = LazyCell::new(|| overlaps(run));
    let no_end = run.why_its_end_says_nothing();
    let is_about = |kind: Option<LockKind>| kind.is_none_or(|kind| kind == run.lock.kind);
    for checker in registry().iter().filter(|checker| is_about(checker.kind)) {
        let judged = match &no_end {
            Some(why) if checker.needs_a_whole_run => Err(NotJudged::because(why.clone())),
            _ => checker.check(run),
        };
        match judged {
            Ok(mut verdict) => {
                if !verdict.findings.is_empty() {
                    say_whose(run, &overlaps, checker, &mut verdict);
                }
                verdicts.push(Verdict { claimed: is_claimed(&run.lock, checker), ..verdict });
            }
            Err(reason) if reason == NotJudged::OTHER_WORKLOAD => {}
            Err(reason) => {
                not_judged.push(Unjudged { checker: checker.name.to_owned(), reason: reason.0.into_owned() });
            }
        }
    }
    let mut metrics = lost_additions::metrics(run);
    metrics.extend(herd::metrics(run));
    metrics.extend(loss_notice::metrics(run));
    RunVerdict {
        not_judged,
        metrics,
        costs: Some(costs(run)),
        coverage: Some(Coverage::of(run)),
        nearest_miss: nearest_miss(run),
        ..RunVerdict::of(verdicts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::events;

    /// Acquires that take long, and in the end a lock that no process gets.
    fn late(other: &str) -> Vec<Event> {
        let acquire = |at: u64| {
            let process = at / 5000 % 2;
            format!(
                "{at} {process} invoke acquire a {{timeout_ms:300}}\n{} {process} info acquire a null unavailable\n",
                at + 2060
            )
        };
        let acquires: String = (0..5).map(|number| acquire(number * 5000)).collect();
        events(&format!("0 nemesis info servers - [\"n1\"]\n{acquires}{other}"))
    }

    #[test]
    fn of_a_run_that_was_cut_off_nothing_is_judged_that_it_owed_later() {
        assert_eq!(check_run(&late("")).of_checker("time-outs").unwrap().outcome, Outcome::Violation);
        let verdict = check_run(&late("30000 nemesis info cut-off - \"client~c1~ended\""));
        for checker in ["time-outs", "fairness", "progress", "errors"] {
            let not_judged = verdict.not_judged.iter().find(|each| each.checker == checker).unwrap();
            assert_eq!(not_judged.reason, "the run was cut off at 30.000 s: client c1 ended");
        }
    }

    #[test]
    fn a_server_that_ended_unexplained_is_no_result_about_the_lock() {
        let ended = "900 nemesis info server-ended - {node:\"n1\",status:\"was~ended~by~SIGSEGV\"}";
        let verdict = check_run(&late(ended));
        assert_eq!(verdict.outcome, Outcome::Unknown);
        let vacuous = verdict.of_checker("vacuous").unwrap();
        assert_eq!(
            vacuous.summary,
            "at 0.900 s, and by no fault of this run, the server n1 was ended by SIGSEGV"
        );
        assert!(verdict.of_checker("time-outs").is_none());
        // After a fault on that server the fault explains its end, unless somebody sent the signal.
        let fault = "800 nemesis invoke slow-disk - {id:1,stage:\"inject\",targets:[\"n1\"]}
                     810 nemesis ok slow-disk - {id:1,stage:\"inject\",effective:true}\n";
        let explained = check_run(&late(&format!("{fault}{ended}")));
        assert_ne!(explained.of_checker("vacuous").unwrap().outcome, Outcome::Unknown);
        let killed = check_run(&late(&format!("{fault}{}", ended.replace("SEGV", "KILL"))));
        assert_eq!(killed.of_checker("vacuous").unwrap().outcome, Outcome::Unknown);
        // A fault that takes it down, and was never healed, has killed it.
        let takes_down = fault.replace("effective:true", "effective:true,description:{takes_down:true}");
        let explained = check_run(&late(&format!("{takes_down}{}", ended.replace("SEGV", "KILL"))));
        assert_ne!(explained.of_checker("vacuous").unwrap().outcome, Outcome::Unknown);
    }

    #[test]
    fn a_violation_of_what_the_lock_does_not_claim_is_reported_and_not_counted() {
        let history = |properties: &str| {
            events(&format!(
                "0    nemesis info lock - {{name:\"x\",properties:[{properties}]}}
                 0    1 invoke acquire a {{ttl_ms:2000}}
                 10   1 ok     acquire a
                 20   2 invoke acquire a {{ttl_ms:2000}}
                 30   2 ok     acquire a
                 40   1 invoke release a
                 50   1 ok     release a {{believed:true}}
                 60   nemesis info phase - \"closing\"
                 70   3 invoke acquire a
                 80   3 ok     acquire a"
            ))
        };
        let verdict = check_run(&history("\"progress\""));
        assert_eq!(verdict.outcome, Outcome::Valid);
        let exclusion = verdict.of_checker("exclusion").unwrap();
        assert_eq!((exclusion.outcome, exclusion.claimed), (Outcome::Violation, false));
        assert_eq!(check_run(&history("\"exclusion\"")).outcome, Outcome::Violation);
    }
}
