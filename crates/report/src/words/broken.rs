//! The verdict of a run that was violated, in one sentence: what happened, and whose failure it is.

use super::counts::{capital, figures};
use super::whose::whose_failures;
use crate::heading::Heading;
use crate::shown_findings::own_findings;
use fencepost_checker::{
    ExclusionFigures, Figures, Harm, LostAdditionsFigures, LostUpdatesFigures, Outcome, RunIndex, RunVerdict,
    StaleWritesFigures, times,
};
use fencepost_history::{Lease, LockKind};

struct BrokenCounts {
    twice: u64,
    overstayed: u64,
    cut_off: u64,
    lost: u64,
    acknowledged: u64,
    accepted: u64,
    rejected: u64,
}

/// What a checker counted, if the lock claims its property.
fn claimed<F: Figures>(verdict: &RunVerdict) -> F {
    let is_claimed = verdict.of_checker(F::CHECKER).is_some_and(|each| each.claimed);
    if is_claimed { figures(verdict) } else { F::default() }
}

impl BrokenCounts {
    fn of(verdict: &RunVerdict) -> BrokenCounts {
        let holds: ExclusionFigures = claimed(verdict);
        let updates: LostUpdatesFigures = claimed(verdict);
        let additions: LostAdditionsFigures = claimed(verdict);
        let writes: StaleWritesFigures = claimed(verdict);
        BrokenCounts {
            twice: holds.granted_twice,
            overstayed: holds.overstayed,
            cut_off: holds.cut_off,
            lost: updates.lost + additions.lost,
            acknowledged: updates.acknowledged + additions.acknowledged,
            accepted: writes.accepted,
            rejected: writes.rejected,
        }
    }

    /// What became of the data, in a clause: "2 of 44 updates were lost (4.5 %)". None where nothing did.
    fn harm(&self) -> Option<String> {
        let BrokenCounts { lost, acknowledged, accepted, .. } = *self;
        if lost > 0 {
            let share = 100.0 * lost as f64 / acknowledged.max(1) as f64;
            let were = if lost == 1 { "was" } else { "were" };
            return Some(format!("{lost} of {acknowledged} updates {were} lost ({share:.1} %)"));
        }
        let late = match accepted {
            0 => return None,
            1 => "one late write".to_owned(),
            _ => format!("{accepted} late writes"),
        };
        Some(format!("the storage accepted {late}"))
    }

    fn rejected(&self) -> Option<String> {
        match self.rejected {
            0 => None,
            1 => Some("the storage rejected one write".to_owned()),
            count => Some(format!("the storage rejected {count} writes")),
        }
    }
}

pub(super) fn broken(heading: &Heading, run: &RunIndex, verdict: &RunVerdict) -> String {
    // Where it may have been the lock after all, it is not said that the lock held.
    let is_open = verdict.attributions().iter().any(|whose| whose.or.is_some());
    let text = match verdict.harms.first() {
        Some(Harm::Unfenced) if !is_open => unfenced(heading, run, verdict),
        Some(Harm::BusyMachine) => busy_machine(verdict),
        _ => did_not_hold(heading, run, verdict),
    };
    let lock = &heading.title;
    capital(&if text.contains(lock.as_str()) { text } else { format!("with {lock}, {text}") }) + "."
}

/// A client overstayed, or its write came late, and the lock itself held.
fn unfenced(heading: &Heading, run: &RunIndex, verdict: &RunVerdict) -> String {
    let counts = BrokenCounts::of(verdict);
    let kept_by = if run.lock.lease == Lease::Session { "session" } else { "connection" };
    let late = match (counts.overstayed, counts.cut_off) {
        (0, 0) => "a write came late".to_owned(),
        (0, _) => format!("a client whose {kept_by} a fault may have ended went on"),
        _ => "a client overstayed its lease".to_owned(),
    };
    let fence = match heading.guard.as_str() {
        "none" | "" => "the storage checks no token".to_owned(),
        guard => format!("the guard {guard} did not stop it"),
    };
    match counts.harm() {
        Some(harm) => format!("{harm}, since {late} and {fence}; the lock itself held"),
        None => {
            let rejected = counts.rejected().map_or(String::new(), |rejected| format!(", and {rejected}"));
            let times = times(counts.overstayed + counts.cut_off);
            format!("{late} {times}, which no lock prevents{rejected}; the lock itself held")
        }
    }
}

/// Whom a lock must never be given to at the same time.
fn too_many(run: &RunIndex) -> &'static str {
    match run.lock.kind {
        LockKind::Mutex | LockKind::Reentrant | LockKind::Several => "two processes",
        LockKind::ReadWrite => "a writer and another process",
        LockKind::Semaphore => "more processes than it has permits",
        LockKind::Election => "two leaders",
    }
}

/// Nothing but lateness that no fault explains.
fn busy_machine(verdict: &RunVerdict) -> String {
    let counts = BrokenCounts::of(verdict);
    let harm = counts.harm().map_or(String::new(), |harm| format!(", and {harm}"));
    format!(
        "the machine was too busy for this TTL: a client overstayed, or learned late that it held the lock, {} without any fault{harm}; ask for a \
         longer TTL, or run less at a time",
        times(counts.overstayed.max(1)),
    )
}

fn did_not_hold(heading: &Heading, run: &RunIndex, verdict: &RunVerdict) -> String {
    let counts = BrokenCounts::of(verdict);
    let lock = &heading.title;
    let mut clauses: Vec<String> = Vec::new();
    if counts.twice > 0 {
        let times = times(counts.twice);
        clauses.push(format!(
            "The lock did not hold: {times} {lock} gave it to {} at the same time",
            too_many(run)
        ));
    } else if counts.overstayed + counts.cut_off > 0 {
        let times = times(counts.overstayed + counts.cut_off);
        let kept_by = if run.lock.lease == Lease::Session { "session" } else { "connection" };
        let how = match counts.overstayed {
            0 => format!("one went on after a fault that may have ended its {kept_by}"),
            _ => "one overstayed its lease".to_owned(),
        };
        clauses.push(format!("{times} {} held the lock of {lock} at the same time: {how}", too_many(run)));
    }
    clauses.extend(counts.harm().or_else(|| counts.rejected()));
    let named = [
        ExclusionFigures::CHECKER,
        LostUpdatesFigures::CHECKER,
        LostAdditionsFigures::CHECKER,
        StaleWritesFigures::CHECKER,
    ];
    for other in &verdict.verdicts {
        let repeats = !other.findings.is_empty() && own_findings(verdict, other).next().is_none();
        let counts = other.outcome == Outcome::Violation && other.claimed;
        if counts && !named.contains(&other.checker.as_str()) && !repeats {
            clauses.push(other.summary.clone());
        }
    }
    let all_there = counts.lost == 0 && counts.acknowledged > 0;
    if all_there && verdict.outcome_of::<LostUpdatesFigures>() == Some(Outcome::Valid) {
        clauses.push("no update was lost".to_owned());
    }
    let last = if clauses.len() > 1 { clauses.pop() } else { None };
    let text = clauses.join(", ");
    let text = last.map_or(text.clone(), |last| format!("{text}, and {last}"));
    let whose = verdict.attributions();
    if whose.is_empty() { text } else { format!("{text}; whose failure: {}", whose_failures(&whose)) }
}
