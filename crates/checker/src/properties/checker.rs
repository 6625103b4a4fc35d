use crate::figures::Figures;
use crate::run_index::RunIndex;
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::{Harm, Whose};
use fencepost_history::LockKind;
use std::borrow::Cow;

/// One property and how it is checked. A new one is a file of its own and a line in the registry.
pub struct Checker {
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// What its findings mean, class by class, those that say most first.
    pub classes: &'static [FindingClass],
    /// The claimed property of which this is a part; none where it is about the test itself.
    pub claim: Option<&'static str>,
    /// What its violations mean for a user, where they are the service's or the library's failure.
    pub harm: Harm,
    pub blame: Blame,
    /// Whether it judges only whole runs on servers that were there: it asks for something that had to come.
    pub needs_a_whole_run: bool,
    /// The kind of locks that it is about; of a lock of another kind it says nothing. None: all.
    pub kind: Option<LockKind>,
    pub(super) judge: Judge,
}

/// Judges a history. The error: it has nothing that the property is about, or no time to decide.
type Judge = fn(&Checker, &RunIndex) -> Result<Verdict, NotJudged>;

impl Checker {
    pub(super) const fn of<F: Figures>(about: &'static str, judge: Judge) -> Checker {
        Checker {
            name: F::CHECKER,
            about,
            classes: &[],
            claim: Some(F::CHECKER),
            harm: Harm::PromiseBroken,
            blame: Blame::Library,
            needs_a_whole_run: false,
            kind: None,
            judge,
        }
    }

    pub fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged> {
        (self.judge)(self, run)
    }

    /// Its verdict: a violation where anything was found, else valid.
    pub(super) fn judged(&self, summary: String, figures: &impl Figures, findings: Vec<Finding>) -> Verdict {
        let outcome = if findings.is_empty() { Outcome::Valid } else { Outcome::Violation };
        Verdict::new(self.name, outcome, summary).with_figures(figures).with_findings(findings)
    }

    /// As [`Checker::judged`]; the first finding sums it up, or else these words.
    pub(super) fn judged_by_first(
        &self,
        valid: String,
        figures: &impl Figures,
        findings: Vec<Finding>,
    ) -> Verdict {
        let summary = findings.first().map_or(valid, |first| first.sentence.clone());
        self.judged(summary, figures, findings)
    }
}

/// How it is known whose failure the findings are; docs/checking.md has the rules with their reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    Library,
    Service,
    /// The service's if no server has answered since its last fault, or that lasts; else the library's.
    ByAnswers,
    /// The service's where its servers can have forgotten what they had granted, else the library's.
    ByMemory,
    /// By the two holders that it is about: which of them was late, and why.
    ByHolders,
}

/// Why a property was not judged: a clause in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJudged(pub Cow<'static, str>);

impl NotJudged {
    /// It is about another workload, and nothing is said of it.
    pub const OTHER_WORKLOAD: NotJudged = NotJudged(Cow::Borrowed(""));

    pub fn because(reason: impl Into<Cow<'static, str>>) -> NotJudged {
        NotJudged(reason.into())
    }
}

/// Returns that nothing was judged, and why, where this is so.
macro_rules! not_judged_if {
    ($is_so:expr, $($why:tt)+) => {
        if $is_so {
            return Err(NotJudged::because(format!($($why)+)));
        }
    };
}
pub(super) use not_judged_if;

/// A kind of violation, explained for somebody who has not met it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindingClass {
    /// As it stands in findings, the same over versions.
    pub name: &'static str,
    /// One sentence: what it means.
    pub meaning: &'static str,
    /// One sentence: what to do about it, where no rule of [`FindingClass::advice_for`] says more.
    pub advice: &'static str,
}

impl FindingClass {
    /// What to do about a finding; servers, client and machine have different remedies.
    pub fn advice_for(&self, whose: Option<Whose>) -> &'static str {
        match (self.name, whose) {
            (_, Some(Whose::Machine)) => {
                "Ask for a longer TTL, or play fewer runs at a time; `fencepost doctor` shows what this machine can do."
            }
            ("granted-twice", Some(Whose::Library)) => {
                "Check what the client really sends to the servers: the TTL, where a lease ended before its length, and its own grant in each \
                 renewal and release; no pooler or proxy that changes or reorders commands may stand between them."
            }
            ("overstayed" | "cut-off", Some(Whose::Library)) => {
                "Let the client look at its lease before it goes on, and report the loss; the storage can reject late writes by a \
                 fencing token."
            }
            _ => self.advice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::find_class;

    #[test]
    fn advice_fits_whose_failure_it_is() {
        let class = |name| find_class(name).unwrap();
        let twice = class("granted-twice");
        assert_eq!(twice.advice_for(Some(Whose::Service)), twice.advice);
        assert!(twice.advice_for(Some(Whose::Library)).contains("the client really sends"));
        let late = class("overstayed");
        assert_eq!(late.advice_for(Some(Whose::NoFence)), late.advice);
        assert!(late.advice_for(Some(Whose::Library)).contains("report the loss"));
        assert!(late.advice_for(Some(Whose::Machine)).contains("longer TTL"));
        assert_eq!(class("stuck").advice_for(None), class("stuck").advice);
    }
}
