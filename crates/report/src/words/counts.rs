//! Figures and outcomes of checkers, by name, and a capital letter.

use fencepost_checker::{Outcome, RunVerdict, Verdict};

/// The outcome of a checker; none where it did not judge the run.
pub(super) fn outcome(verdict: &RunVerdict, checker: &str) -> Option<Outcome> {
    verdict.of_checker(checker).map(|verdict| verdict.outcome)
}

/// One figure of a checker; 0 where it has none.
pub fn count(verdict: &RunVerdict, checker: &str, stat: &str) -> u64 {
    verdict.of_checker(checker).and_then(|verdict| figure(verdict, stat)).unwrap_or(0)
}

fn figure(verdict: &Verdict, stat: &str) -> Option<u64> {
    verdict.stats.get(stat)?.as_u64()
}

/// With a capital letter in front.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
