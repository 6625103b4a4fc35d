//! The properties of a lock, each with its checker: a pure function from a run index to a verdict.

mod availability;
mod exclusion;
mod fencing;
pub(crate) mod lost_additions;
mod lost_updates;
mod ownership;
mod progress;
mod stale_writes;
mod vacuous;

use crate::run_index::RunIndex;
use crate::verdict::{Outcome, RunVerdict, Verdict};
use fencepost_history::Event;

pub use exclusion::{Class, Overlap, overlaps};
pub(crate) use exclusion::{reason as overlap_reason, sentence as exclusion_sentence};

/// One property and how it is checked. A new one is a file of its own and a line in [`registry`].
pub trait Checker: Sync {
    /// Its name in verdicts and on the command line.
    fn name(&self) -> &'static str;
    /// Which property it checks, in one line.
    fn about(&self) -> &'static str;
    /// Judges a history. None: the history has nothing that this property is about.
    fn check(&self, run: &RunIndex) -> Option<Verdict>;
}

/// All checkers, in the order in which reports show them.
pub fn registry() -> &'static [&'static dyn Checker] {
    &[
        &exclusion::Exclusion,
        &ownership::Ownership,
        &lost_updates::LostUpdates,
        &lost_additions::LostAdditions,
        &stale_writes::StaleWrites,
        &fencing::Fencing,
        &progress::Progress,
        &availability::Availability,
        &vacuous::Vacuous,
    ]
}

/// Judges a run by every checker that has something to say about it.
///
/// A history that is not one is `unknown`, said by a checker named `history`.
pub fn check_run(events: &[Event]) -> RunVerdict {
    match RunIndex::new(events) {
        Ok(run) => check_index(&run),
        Err(error) => {
            let summary = format!("the history is malformed: {error}");
            RunVerdict::of(vec![Verdict::new("history", Outcome::Unknown, summary)])
        }
    }
}

/// As [`check_run`], for a history that was digested before.
pub fn check_index(run: &RunIndex) -> RunVerdict {
    let verdicts = registry().iter().filter_map(|checker| checker.check(run)).collect();
    RunVerdict {
        metrics: crate::metrics::metrics(run),
        costs: Some(crate::metrics::costs(run)),
        ..RunVerdict::of(verdicts)
    }
}
