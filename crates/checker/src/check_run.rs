//! Judges a run by every property.

use crate::metrics::{costs, herd};
use crate::properties::{lost_additions, registry};
use crate::run_index::RunIndex;
use crate::verdict::{Outcome, RunVerdict, Unjudged, Verdict};
use fencepost_history::Event;

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
    for checker in registry() {
        match checker.check(run) {
            Ok(verdict) => verdicts.push(verdict),
            Err(reason) => {
                not_judged
                    .push(Unjudged { checker: checker.name().to_owned(), reason: reason.0.into_owned() });
            }
        }
    }
    let mut metrics = lost_additions::metrics(run);
    metrics.extend(herd::metrics(run));
    RunVerdict { not_judged, metrics, costs: Some(costs(run)), ..RunVerdict::of(verdicts) }
}
