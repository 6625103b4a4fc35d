//! Judges a run by every property.

use crate::coverage::Coverage;
use crate::distance::nearest_miss;
use crate::metrics::{costs, herd};
use crate::properties::{is_claimed, lost_additions, overlaps, registry};
use crate::run_index::RunIndex;
use crate::say_whose::say_whose;
use crate::verdict::{Outcome, RunVerdict, Unjudged, Verdict};
use fencepost_history::Event;
use std::cell::LazyCell;

/// The names of all metrics that a run can have.
pub const METRICS: &[&str] = &[lost_additions::LOST, herd::WAKEUPS, herd::PASSED];

/// Judges a run by every checker. Those that have nothing to say about it are listed with their reasons.
///
/// A history that is malformed is `unknown`, said by a checker named `history`.
pub fn check_run(events: &[Event]) -> RunVerdict {
    match RunIndex::new(events) {
        Ok(run) => check_index(&run),
        Err(error) => {
            let summary = format!("the history is malformed: {error}");
            RunVerdict::of(vec![Verdict::new("history", Outcome::Unknown, summary)])
        }
    }
}

/// As [`check_run`], for a history of which the index is there already.
pub fn check_index(run: &RunIndex) -> RunVerdict {
    let (mut verdicts, mut not_judged) = (Vec::new(), Vec::new());
    // Only those who found something ask whose failure it is.
    let overlaps = LazyCell::new(|| overlaps(run));
    for checker in registry() {
        match checker.check(run) {
            Ok(mut verdict) => {
                if !verdict.findings.is_empty() {
                    say_whose(run, &overlaps, *checker, &mut verdict);
                }
                verdicts.push(Verdict { claimed: is_claimed(&run.lock, *checker), ..verdict });
            }
            Err(reason) => {
                not_judged
                    .push(Unjudged { checker: checker.name().to_owned(), reason: reason.0.into_owned() });
            }
        }
    }
    let mut metrics = lost_additions::metrics(run);
    metrics.extend(herd::metrics(run));
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
    use crate::literal::events;

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
