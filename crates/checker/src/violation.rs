use crate::verdict::{Outcome, RunVerdict, Verdict};
use fencepost_history::once;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Violation {
    pub checker: String,
    pub class: String,
}

impl Violation {
    /// The kinds of violations of a verdict, each once: in the order of the checkers, then of time.
    /// Properties that the lock does not claim, and findings that repeat another checker's, do not count.
    pub fn all(verdict: &RunVerdict) -> Vec<Violation> {
        let counted = |verdict: &&Verdict| verdict.claimed && verdict.outcome == Outcome::Violation;
        once(verdict.verdicts.iter().filter(counted).flat_map(|verdict| {
            let own = verdict.findings.iter().filter(|finding| finding.repeats.is_none());
            own.map(|finding| Violation { checker: verdict.checker.clone(), class: finding.class.clone() })
        }))
    }

    /// When it was first complete, in nanoseconds since the run began; none where the run does not show it.
    pub fn first_ns(&self, verdict: &RunVerdict) -> Option<u64> {
        let verdict = verdict.of_checker(&self.checker)?;
        let own = verdict.findings.iter().filter(|finding| finding.is_of_class(&self.class));
        own.map(|finding| finding.time).min()
    }

    /// Whether a run shows it.
    pub fn is_in(&self, verdict: &RunVerdict) -> bool {
        self.first_ns(verdict).is_some()
    }
}

impl fmt::Display for Violation {
    /// `granted twice (exclusion)`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.class.replace('-', " "), self.checker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Finding;

    fn finding(class: &str, time: u64) -> Finding {
        Finding { class: class.to_owned(), time, ..Finding::default() }
    }

    fn broken(checker: &str, findings: Vec<Finding>) -> Verdict {
        Verdict::new(checker, Outcome::Violation, "").with_findings(findings)
    }

    #[test]
    fn kinds_are_listed_once_without_repetitions_and_what_is_not_claimed() {
        let twice = |time| finding("granted-twice", time);
        let repeated = Finding { repeats: Some("exclusion".to_owned()), ..finding("stale", 3) };
        let verdict = RunVerdict::of(vec![
            broken("exclusion", vec![finding("overstayed", 9), twice(4), twice(5)]),
            broken("lost-updates", vec![repeated]),
            Verdict { claimed: false, ..broken("ownership", vec![finding("removed", 1)]) },
            Verdict::new("progress", Outcome::Valid, ""),
        ]);
        let all = Violation::all(&verdict);
        let shown: Vec<String> = all.iter().map(Violation::to_string).collect();
        assert_eq!(shown, ["granted twice (exclusion)", "overstayed (exclusion)"]);
        assert_eq!(all[0].first_ns(&verdict), Some(4));
        let other = Violation { checker: "progress".to_owned(), class: "stuck".to_owned() };
        assert!(!other.is_in(&verdict));
    }
}
