//! The properties of a lock, each with its checker: a pure function from a run index to a verdict.

mod availability;
mod exclusion;
mod fencing;
mod linearizable;
pub(crate) mod lost_additions;
mod lost_updates;
mod ownership;
mod progress;
mod stale_writes;
mod vacuous;

use crate::run_index::RunIndex;
use crate::verdict::Verdict;
use std::borrow::Cow;

pub use exclusion::{Class, Overlap, overlaps};
pub(crate) use exclusion::{reason as overlap_reason, sentence as exclusion_sentence};

/// One property and how it is checked. A new one is a file of its own and a line in [`registry`].
pub trait Checker: Sync {
    /// Its name in verdicts and on the command line.
    fn name(&self) -> &'static str;
    /// Which property it checks, in one line.
    fn about(&self) -> &'static str;
    /// What its findings mean, class by class, those that say most first.
    fn classes(&self) -> &'static [FindingClass] {
        &[]
    }
    /// Judges a history.
    ///
    /// # Errors
    /// The property is not judged: the history has nothing that it is about, or deciding would take too long.
    fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged>;
}

/// Why a property was not judged: a clause in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJudged(pub Cow<'static, str>);

impl NotJudged {
    /// For this reason.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> NotJudged {
        NotJudged(reason.into())
    }
}

/// A kind of violation, explained for somebody who has not met it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindingClass {
    /// As it stands in findings, the same over versions.
    pub name: &'static str,
    /// One sentence: what it means.
    pub meaning: &'static str,
    /// One sentence: what to do about it.
    pub advice: &'static str,
}

/// The class of findings of this name; none if no checker of this version has it.
pub fn find_class(name: &str) -> Option<&'static FindingClass> {
    classes().find(|class| class.name == name)
}

/// Every class of findings, in the order of the checkers: those that say most stand first.
pub fn classes() -> impl Iterator<Item = &'static FindingClass> {
    registry().iter().flat_map(|checker| checker.classes())
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
        &linearizable::Linearizable,
        &progress::Progress,
        &availability::Availability,
        &vacuous::Vacuous,
    ]
}
