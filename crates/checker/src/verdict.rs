use crate::coverage::Coverage;
use crate::distance::NearMiss;
use crate::evidence::Evidence;
use crate::figures::Figures;
use crate::metrics::{Costs, Metric};
use crate::whose::{Attribution, Harm, OtherCause, Whose};
use fencepost_history::sorted_once;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

fencepost_history::worded! {
    /// The outcome of one checker, or of a run. Ordered by badness, so that the worst is the greatest.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Outcome {
        /// The property was tested, and held.
        Valid = "valid",
        /// Nothing was tested: no contention, or no fault that took effect.
        Vacuous = "vacuous",
        /// Not decided; the summary says why.
        Unknown = "unknown",
        /// The property was violated; the findings prove it.
        Violation = "violation",
    }
    /// Its name, as in `verdict.json`.
    pub fn word;
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` rather than `write_str`, so that columns of verdicts can be aligned.
        out.pad(self.word())
    }
}

impl Outcome {
    /// A sign that stands beside its word or colour, for those who see colours otherwise.
    pub fn sign(self) -> &'static str {
        match self {
            Outcome::Valid => "✓",
            Outcome::Violation => "✗",
            Outcome::Unknown => "?",
            Outcome::Vacuous => "○",
        }
    }

    /// The exit code of a command that ends with this outcome: 0 valid, 1 violation, 2 unknown or vacuous.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Valid => 0,
            Outcome::Violation => 1,
            Outcome::Unknown | Outcome::Vacuous => 2,
        }
    }
}

/// One proven violation of a property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind of breach, in a word that stays the same over versions (`granted-twice`, `overstayed`, …).
    pub class: String,
    pub key: String,
    /// Of its completion, in nanoseconds since the run began.
    pub time: u64,
    pub events: Vec<u64>,
    /// What happened, for somebody who has not seen the history.
    pub sentence: String,
    /// In verdicts of earlier versions: the checker whose finding this one repeats; a report may omit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<String>,
    /// Whose failure it shows. None in old verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whose: Option<Whose>,
    /// What else it may be, where the run leaves that open, and what decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub or: Option<OtherCause>,
    /// A few operations that have no order, to be drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Box<Evidence>>,
}

/// Kinds of another class: what says only that an update was lost is shown by each that says how.
const KINDS: [(&str, &str); 2] = [("written-late", "lost-update"), ("written-after-loss", "lost-update")];

impl Finding {
    /// One that says nothing yet of whose failure it shows.
    pub fn new(class: &str, key: &str, time: u64, events: Vec<u64>, sentence: String) -> Finding {
        let (class, key) = (class.to_owned(), key.to_owned());
        Finding { class, key, time, events, sentence, ..Finding::default() }
    }

    pub fn is_of_class(&self, class: &str) -> bool {
        self.class == class || KINDS.contains(&(&*self.class, class))
    }

    /// Whose failure it shows, and what else it may be.
    pub fn attribution(&self) -> Option<Attribution> {
        self.whose.map(|whose| Attribution { whose, or: self.or.clone() })
    }
}

/// What one checker says about one history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub checker: String,
    pub outcome: Outcome,
    /// Whether the lock claims the property. One that it does not claim is reported, and does not count.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub claimed: bool,
    /// Whose failures its findings show, each once. Empty in old verdicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whose: Vec<Whose>,
    /// What its findings mean for who would use the lock, each once, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harms: Vec<Harm>,
    pub summary: String,
    /// In order of time; at most [`FINDINGS_MAX`] of each class. The counts in `stats` are complete.
    pub findings: Vec<Finding>,
    pub stats: Map<String, Value>,
}

fn yes() -> bool {
    true
}

/// Findings of one class that a verdict carries: the millionth proof helps no reader.
pub const FINDINGS_MAX: usize = 100;

impl Verdict {
    /// A verdict without findings and metrics; add them to the fields.
    pub fn new(checker: &str, outcome: Outcome, summary: impl Into<String>) -> Verdict {
        Verdict {
            checker: checker.to_owned(),
            outcome,
            claimed: true,
            whose: Vec::new(),
            harms: Vec::new(),
            summary: summary.into(),
            findings: Vec::new(),
            stats: Map::new(),
        }
    }

    pub fn with_figures<F: Figures>(mut self, figures: &F) -> Verdict {
        self.stats = figures.to_stats();
        self
    }

    /// Says of each finding whose failure it shows; `own_harm` is what it means where it is the lock's own.
    pub(crate) fn say_whose(&mut self, own_harm: Harm, of: impl Fn(&Finding) -> Attribution) {
        for finding in &mut self.findings {
            let Attribution { whose, or } = of(finding);
            (finding.whose, finding.or) = (Some(whose), or);
        }
        self.whose = sorted_once(self.findings.iter().filter_map(|finding| finding.whose));
        self.harms = sorted_once(self.whose.iter().map(|whose| whose.harm(own_harm)));
    }

    /// Whose failures its findings show, each once.
    pub fn attributions(&self) -> Vec<Attribution> {
        sorted_once(self.findings.iter().filter_map(Finding::attribution))
    }

    /// Adds findings, sorted by time and cut to [`FINDINGS_MAX`] of each class.
    pub fn with_findings(mut self, mut findings: Vec<Finding>) -> Verdict {
        findings.sort_by_key(|finding| finding.time);
        let mut kept: std::collections::BTreeMap<String, usize> = Default::default();
        findings.retain(|finding| {
            let count = kept.entry(finding.class.clone()).or_default();
            *count += 1;
            *count <= FINDINGS_MAX
        });
        self.findings = findings;
        self
    }
}

/// A checker that did not judge a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unjudged {
    pub checker: String,
    pub reason: String,
}

/// What all checkers say about a run. Its outcome is the worst of those who judged it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    pub outcome: Outcome,
    /// What the violations of what the lock claims mean, each once, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harms: Vec<Harm>,
    pub verdicts: Vec<Verdict>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<Unjudged>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// None in verdicts of before they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// The situations that the faults met, of those that were possible. None in old verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// The handover that came closest to a violation of mutual exclusion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest_miss: Option<NearMiss>,
}

impl RunVerdict {
    /// Combines verdicts; those on properties that the lock does not claim do not count. None: vacuous.
    pub fn of(verdicts: Vec<Verdict>) -> RunVerdict {
        let violated = verdicts.iter().filter(|each| each.claimed && each.outcome == Outcome::Violation);
        let harms = sorted_once(violated.flat_map(|verdict| verdict.harms.iter().copied()));
        let counted = verdicts.iter().filter(|verdict| verdict.claimed);
        let outcome = counted.map(|verdict| verdict.outcome).max().unwrap_or(Outcome::Vacuous);
        let (not_judged, metrics) = (Vec::new(), Vec::new());
        RunVerdict {
            outcome,
            harms,
            verdicts,
            not_judged,
            metrics,
            costs: None,
            coverage: None,
            nearest_miss: None,
        }
    }

    /// Whose failures the violations of what the lock claims are, each once, what says most first.
    pub fn attributions(&self) -> Vec<Attribution> {
        let counted = self.verdicts.iter().filter(|each| each.claimed && each.outcome == Outcome::Violation);
        sorted_once(counted.flat_map(Verdict::attributions))
    }

    /// What a checker counted; none where it did not judge the run.
    pub fn figures<F: Figures>(&self) -> Option<F> {
        self.of_checker(F::CHECKER).map(|verdict| F::read(&verdict.stats))
    }

    /// The outcome of a checker, by its figures; none where it did not judge the run.
    pub fn outcome_of<F: Figures>(&self) -> Option<Outcome> {
        self.of_checker(F::CHECKER).map(|verdict| verdict.outcome)
    }

    pub fn of_checker(&self, name: &str) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.checker == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::ExclusionFigures;

    #[test]
    fn the_worst_outcome_wins() {
        let verdict = |outcome| Verdict::new("x", outcome, "");
        let run = |outcomes: &[Outcome]| RunVerdict::of(outcomes.iter().copied().map(verdict).collect());
        assert_eq!(run(&[]).outcome, Outcome::Vacuous);
        assert_eq!(run(&[Outcome::Valid]).outcome, Outcome::Valid);
        assert_eq!(run(&[Outcome::Valid, Outcome::Vacuous]).outcome, Outcome::Vacuous);
        assert_eq!(run(&[Outcome::Unknown, Outcome::Vacuous]).outcome, Outcome::Unknown);
        assert_eq!(run(&[Outcome::Violation, Outcome::Unknown]).outcome, Outcome::Violation);
        assert_eq!(Outcome::Vacuous.exit_code(), 2);
    }

    #[test]
    fn a_property_that_is_not_claimed_does_not_count() {
        let broken = Verdict { claimed: false, ..Verdict::new("ownership", Outcome::Violation, "") };
        let run = RunVerdict::of(vec![Verdict::new("exclusion", Outcome::Valid, ""), broken.clone()]);
        assert_eq!(run.outcome, Outcome::Valid);
        assert_eq!(RunVerdict::of(vec![broken.clone()]).outcome, Outcome::Vacuous);
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(text.matches(r#""claimed":false"#).count(), 1, "{text}");
        assert_eq!(serde_json::from_str::<RunVerdict>(&text).unwrap(), run);
    }

    #[test]
    fn verdicts_survive_json() {
        let finding = Finding {
            class: "overstayed".into(),
            key: "a".into(),
            time: 7,
            events: vec![1, 2],
            sentence: "so".into(),
            ..Finding::default()
        };
        let verdict = Verdict::new("exclusion", Outcome::Violation, "broken")
            .with_figures(&ExclusionFigures { overstayed: 1, ..ExclusionFigures::default() });
        let run = RunVerdict::of(vec![verdict.with_findings(vec![finding])]);
        let text = serde_json::to_string(&run).unwrap();
        assert!(text.starts_with(r#"{"outcome":"violation""#), "{text}");
        assert_eq!(serde_json::from_str::<RunVerdict>(&text).unwrap(), run);
    }

    #[test]
    fn a_class_is_cut_but_not_at_the_cost_of_another() {
        let finding = |class: &str, time| Finding {
            class: class.into(),
            key: String::new(),
            time,
            events: vec![],
            sentence: String::new(),
            ..Finding::default()
        };
        let mut findings: Vec<_> = (0..500).map(|time| finding("many", time)).collect();
        findings.push(finding("few", 1000));
        let verdict = Verdict::new("x", Outcome::Violation, "").with_findings(findings);
        assert_eq!(verdict.findings.len(), FINDINGS_MAX + 1);
        assert_eq!(verdict.findings.last().unwrap().class, "few");
    }
}
