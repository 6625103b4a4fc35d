//! The result of one rule.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleOutcome {
    Kept,
    /// The protocol is kept, and something is worth a look.
    Note,
    /// The rule has no meaning for this lock.
    NotApplicable,
    /// The client was gone before, or never granted the lock.
    NotTried,
    /// It could not be found out.
    Unchecked,
    Broken,
}

/// Whose part a rule is about: what is to be changed, or what is worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleSubject {
    Client,
    Library,
}

#[derive(Clone, Debug)]
pub(super) struct CheckResult {
    pub(super) outcome: RuleOutcome,
    pub(super) seen: String,
    pub(super) change: Option<String>,
    pub(super) processes: Option<Vec<u64>>,
    pub(super) is_last: bool,
    /// Whose part it is, where that is not as the rule says.
    pub(super) about: Option<RuleSubject>,
}

pub(super) enum CheckEnd {
    Found(CheckResult),
    /// The client did not answer the hello in time: one sentence.
    NoHello(String),
    /// The client cannot be spoken to any more: one sentence.
    Gone(String),
    /// Nothing is known of the client: one sentence.
    Environment(anyhow::Error),
}

pub(super) type Checked = Result<CheckResult, CheckEnd>;

impl CheckResult {
    fn new(outcome: RuleOutcome, seen: impl Into<String>, change: Option<String>) -> CheckResult {
        CheckResult { outcome, seen: seen.into(), change, processes: None, is_last: false, about: None }
    }

    pub(super) fn kept(seen: impl Into<String>) -> CheckResult {
        CheckResult::new(RuleOutcome::Kept, seen, None)
    }

    pub(super) fn note(seen: impl Into<String>, look: impl Into<String>) -> CheckResult {
        CheckResult::new(RuleOutcome::Note, seen, Some(look.into()))
    }

    pub(super) fn not_applicable(reason: impl Into<String>) -> CheckResult {
        CheckResult::new(RuleOutcome::NotApplicable, reason, None)
    }

    pub(super) fn not_tried(reason: impl Into<String>) -> CheckResult {
        CheckResult::new(RuleOutcome::NotTried, reason, None)
    }

    pub(super) fn unchecked(reason: impl Into<String>) -> CheckResult {
        CheckResult::new(RuleOutcome::Unchecked, reason, None)
    }

    pub(super) fn broken(seen: impl Into<String>, change: impl Into<String>) -> CheckResult {
        CheckResult::new(RuleOutcome::Broken, seen, Some(change.into()))
    }

    pub(super) fn ending_the_check(mut self) -> CheckResult {
        self.is_last = true;
        self
    }

    pub(super) fn of_the_library(mut self) -> CheckResult {
        self.about = Some(RuleSubject::Library);
        self
    }

    pub(super) fn of_processes(mut self, processes: Vec<u64>) -> CheckResult {
        self.processes = Some(processes);
        self
    }
}

impl From<CheckResult> for CheckEnd {
    fn from(result: CheckResult) -> CheckEnd {
        CheckEnd::Found(result)
    }
}

impl From<anyhow::Error> for CheckEnd {
    fn from(error: anyhow::Error) -> CheckEnd {
        CheckEnd::Environment(error)
    }
}
