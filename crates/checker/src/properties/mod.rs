//! The properties of a lock, each with its checker: a pure function from a run index to a verdict.

mod availability;
mod balances;
mod checker;
mod errors;
mod exclusion;
mod fairness;
mod fencing;
mod followers;
mod graceful_end;
mod leadership;
mod linearizable;
pub(crate) mod lost_additions;
mod lost_updates;
mod order;
mod ownership;
mod progress;
mod reentry;
mod renewal;
mod sets;
mod stale_writes;
mod terms;
mod ticks;
mod time_outs;
mod torn_reads;
mod under_holds;
mod users;
mod vacuous;
mod validity;

use fencepost_history::LockFacts;

pub use availability::AvailabilityFigures;
pub use balances::BalancesFigures;
pub use checker::{Blame, Checker, FindingClass, NotJudged};
pub use errors::ErrorsFigures;
pub(crate) use exclusion::sentence as exclusion_sentence;
pub use exclusion::{ExclusionFigures, Overlap, overlaps, too_many};
pub use fairness::FairnessFigures;
pub use fencing::FencingFigures;
pub use leadership::LeadershipFigures;
pub use linearizable::LinearizableFigures;
pub use lost_additions::LostAdditionsFigures;
pub use lost_updates::LostUpdatesFigures;
pub use ownership::OwnershipFigures;
pub use progress::ProgressFigures;
pub(crate) use progress::stuck_by_the_service;
pub use reentry::ReentryFigures;
pub use renewal::RenewalFigures;
pub use sets::SetsFigures;
pub use stale_writes::StaleWritesFigures;
pub use terms::TermsFigures;
pub use ticks::TicksFigures;
pub use time_outs::TimeOutsFigures;
pub use torn_reads::TornReadsFigures;
pub use users::UsersFigures;
pub use vacuous::VacuousFigures;
pub use validity::ValidityFigures;

/// The class of findings of this name; none if no checker of this version has it.
pub fn find_class(name: &str) -> Option<&'static FindingClass> {
    classes().find(|class| class.name == name)
}

/// Every class of findings, in the order of the checkers: those that say most stand first.
pub fn classes() -> impl Iterator<Item = &'static FindingClass> {
    registry().iter().flat_map(|checker| checker.classes)
}

/// The properties that a lock can claim: what `properties` in a `lock.toml` may name.
pub fn claimable() -> Vec<&'static str> {
    registry().iter().filter_map(|checker| checker.claim.filter(|claim| *claim == checker.name)).collect()
}

pub(crate) fn is_claimed(lock: &LockFacts, checker: &Checker) -> bool {
    let (Some(properties), Some(claim)) = (&lock.properties, checker.claim) else { return true };
    properties.iter().any(|property| property == claim)
}

/// All checkers, in the order in which reports show them.
pub fn registry() -> &'static [&'static Checker] {
    &[
        &exclusion::EXCLUSION,
        &reentry::REENTRY,
        &ownership::OWNERSHIP,
        &lost_updates::LOST_UPDATES,
        &lost_additions::LOST_ADDITIONS,
        &torn_reads::TORN_READS,
        &balances::BALANCES,
        &users::USERS,
        &ticks::TICKS,
        &leadership::LEADERSHIP,
        &followers::FOLLOWERS,
        &terms::TERMS,
        &stale_writes::STALE_WRITES,
        &fencing::FENCING,
        &linearizable::LINEARIZABLE,
        &validity::VALIDITY,
        &renewal::RENEWAL,
        &progress::PROGRESS,
        &availability::AVAILABILITY,
        &sets::SETS,
        &fairness::FAIRNESS,
        &order::ORDER,
        &graceful_end::GRACEFUL_END,
        &time_outs::TIME_OUTS,
        &errors::ERRORS,
        &vacuous::VACUOUS,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_property_are_claimed_with_it() {
        let lock = |properties: Option<&[&str]>| LockFacts {
            properties: properties.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
            ..LockFacts::default()
        };
        let claimed = |lock: &LockFacts| -> Vec<&str> {
            registry()
                .iter()
                .filter(|checker| is_claimed(lock, checker))
                .map(|checker| checker.name)
                .collect()
        };
        assert_eq!(claimed(&lock(None)).len(), registry().len());
        assert_eq!(
            claimed(&lock(Some(&["progress"]))),
            ["progress", "sets", "fairness", "graceful-end", "errors", "vacuous"]
        );
        assert!(claimed(&lock(Some(&["exclusion"]))).contains(&"lost-updates"));
        let names = ["exclusion", "ownership", "fencing", "progress", "availability", "order", "time-outs"];
        assert_eq!(claimable(), names);
    }
}
