//! The properties of a lock, each with its checker: a pure function from a run index to a verdict.

mod availability;
mod checker;
mod exclusion;
mod fencing;
mod linearizable;
pub(crate) mod lost_additions;
mod lost_updates;
mod ownership;
mod progress;
mod stale_writes;
mod vacuous;

pub use checker::{Checker, FindingClass, NotJudged};
pub use exclusion::{Class, Overlap, overlaps};
pub(crate) use exclusion::{reason as overlap_reason, sentence as exclusion_sentence};

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
