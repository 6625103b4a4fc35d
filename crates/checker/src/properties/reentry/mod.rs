//! Re-entry: a reentrant lock is its holder's from the outermost acquire to the last release. In between the
//! holder acquires it again (`reenter`) and releases that (`leave`).
//!
//! - *Violation*, `released-too-early`: a `leave` said that it removed the lock, or another process was
//!   granted it after a `leave`, before the holder, which still believed, had begun its last release, and
//!   nothing but the library can have done that. An overlap that faults explain is a matter of mutual
//!   exclusion.
//! - *Violation*, `released-too-late`: a last release succeeded, and said that it removed nothing; or no
//!   process was granted the lock until the lease of that holder was over, a quarter of the TTL later or
//!   more, although processes tried at every moment, and no fault was there.
//! - *Violation*, `shut-out`: a `reenter` was answered that the lock was taken, while its holder's lease
//!   certainly ran, no fault was there, and no other process had been granted the lock since.
//! - *Not judged*: no holder acquired its lock again.

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use super::exclusion::overlaps;
use super::under_holds::holds_of_operations;
use crate::figures::figures;
use crate::ledger::judgement::{Because, Class, whose};
use crate::prose::{lock, seconds};
use crate::run_index::{HoldEnd, Operation, RunIndex};
use crate::spans::length_ns;
use crate::verdict::{Finding, Verdict};
use crate::wants::{View, WantsByKey, wants};
use crate::whose::Whose;
use fencepost_history::{ErrorCode, Kind, LockKind, Released, f};
use std::collections::BTreeMap;

figures! {
    /// How often holders acquired their lock again.
    ReentryFigures of "reentry" {
        reentries: u64,
        too_early: u64,
        too_late: u64,
    }
}

const TOO_EARLY: &str = "released-too-early";
const TOO_LATE: &str = "released-too-late";
const SHUT_OUT: &str = "shut-out";

/// A lock stayed taken for this part of the TTL at least, where that shows that a release left it.
const STAYED_SHARE: u64 = 4;

pub(super) const REENTRY: Checker = Checker {
    classes: &[
        FindingClass {
            name: TOO_EARLY,
            meaning: "A holder released an inner section, and lost the lock of the outer one with it.",
            advice: "Count every acquire of the holder and every release in one step, and remove the lock only when the count is 0.",
        },
        FindingClass {
            name: TOO_LATE,
            meaning: "A holder had released the lock as often as it had acquired it, and the lock stayed taken.",
            advice: "Count each acquire once, also one that is sent again, and remove the lock when the count is 0.",
        },
        FindingClass {
            name: SHUT_OUT,
            meaning: "A holder acquired its own lock again, and was refused.",
            advice: "Know the holder by what all its acquires have in common, such as one name for each thread.",
        },
    ],
    claim: Some("exclusion"),
    kind: Some(LockKind::Reentrant),
    ..Checker::of::<ReentryFigures>(
        "re-entry: a holder keeps the lock from its outermost acquire to its last release",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let sections = sections(run);
    let reentries: usize = sections.values().map(|section| section.entered.len()).sum();
    let refused: Vec<Finding> = sections.iter().filter_map(|(&at, it)| shut_out(run, at, it)).collect();
    not_judged_if!(reentries == 0 && refused.is_empty(), "no process acquired a lock again that it held");
    let early = too_early(run, &sections);
    let keys = wants(run, (0, u64::MAX), View::Benefit);
    let late: Vec<Finding> =
        sections.iter().filter_map(|(&at, section)| too_late(run, &keys, at, section)).collect();
    let figures = ReentryFigures {
        reentries: reentries as u64,
        too_early: early.len() as u64,
        too_late: late.len() as u64,
    };
    let findings = [early, late, refused].concat();
    let summary = match &findings[..] {
        [] => {
            format!("{reentries} times a holder acquired its lock again, and had it until its last release")
        }
        [only] => only.sentence.clone(),
        [first, ..] => {
            format!("in {} of {} nested holds: {}", findings.len(), sections.len(), first.sentence)
        }
    };
    Ok(checker.judged(summary, &figures, findings))
}

/// What a holder did between its outermost acquire and its last release.
#[derive(Default)]
struct Section<'r, 'a> {
    entered: Vec<&'r Operation<'a>>,
    refused: Vec<&'r Operation<'a>>,
    left: Vec<&'r Operation<'a>>,
    release: Option<&'r Operation<'a>>,
    /// An acquire or a release of it has no certain end.
    is_unsure: bool,
}

/// The holds in which the holder tried to acquire again, by their places.
fn sections<'r, 'a>(run: &'r RunIndex<'a>) -> BTreeMap<usize, Section<'r, 'a>> {
    let holds = holds_of_operations(run);
    let mut sections: BTreeMap<usize, Section> = BTreeMap::new();
    for operation in &run.operations {
        let Some(&at) = holds.get(&operation.invoke.index) else { continue };
        if operation.f() == f::REENTER {
            let section = sections.entry(at).or_default();
            match operation.completion.map(|end| end.kind) {
                Some(Kind::Ok) => section.entered.push(operation),
                Some(Kind::Fail) => section.refused.push(operation),
                _ => section.is_unsure = true,
            }
        }
        let Some(section) = sections.get_mut(&at) else { continue };
        match operation.f() {
            f::LEAVE => {
                section.is_unsure |= operation.ok().is_none();
                section.left.push(operation);
            }
            f::RELEASE => section.release = section.release.or(Some(operation)),
            _ => {}
        }
    }
    sections
}

fn too_early(run: &RunIndex, sections: &BTreeMap<usize, Section>) -> Vec<Finding> {
    let mut findings: BTreeMap<usize, Finding> = BTreeMap::new();
    for (&at, section) in sections {
        // A release that is one of the outer section is no inner one, whatever it is called.
        let inner = section.left.iter().take(section.entered.len());
        let mut ended = inner.filter_map(|leave| Some((leave, leave.ok()?)));
        let removed = ended.find(|(_, end)| Released::of(&end.value).removed == Some(true));
        if let Some((leave, end)) = removed {
            let hold = &run.holds[at];
            let words = format!(
                "{}, and again at {}; its release of the inner section at {} removed the lock, before it had released the outer one",
                hold.acquired(),
                seconds(section.entered[0].invoke.time),
                seconds(leave.invoke.time),
            );
            findings
                .insert(at, Finding::new(TOO_EARLY, hold.key, end.time, vec![hold.from, end.index], words));
        }
    }
    let twice = overlaps(run).into_iter().filter(|overlap| overlap.class == Class::GrantedTwice);
    for overlap in twice {
        let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
        let Some(section) = sections.get(&overlap.first) else { continue };
        let leave = section.left.iter().rev().find(|leave| leave.invoke.index < b.from);
        let is_library = || matches!(whose(run, overlap.class, a, b), (Whose::Library, Because::NothingElse));
        let Some(leave) = leave.filter(|_| !findings.contains_key(&overlap.first) && is_library()) else {
            continue;
        };
        let words = format!(
            "{} after process {} had released an inner section at {}, and before that process, which still believed at {} that it \
             held the lock, had released the outer one",
            b.was_granted(),
            a.process,
            seconds(leave.invoke.time),
            seconds(a.until_ns),
        );
        let events = vec![a.from, leave.invoke.index, b.from, a.until];
        let time = a.until_ns.max(b.from_ns);
        findings.insert(overlap.first, Finding::new(TOO_EARLY, a.key, time, events, words));
    }
    findings.into_values().collect()
}

fn too_late(run: &RunIndex, keys: &WantsByKey, at: usize, section: &Section) -> Option<Finding> {
    let hold = &run.holds[at];
    let released = section.release.and_then(|release| release.ok())?;
    let is_balanced = !section.is_unsure && section.entered.len() == section.left.len();
    let lease = hold.ends.lease?;
    if !is_balanced || hold.ends.how != HoldEnd::Released || lease.earliest.ns <= released.time {
        return None;
    }
    let times = section.entered.len() + 1;
    let begun = format!(
        "process {} acquired {} {times} times from {} on and released it as often, at last at {}",
        hold.process,
        lock(hold.key),
        seconds(hold.from_ns),
        seconds(released.time),
    );
    let of = |time, events, words| Some(Finding::new(TOO_LATE, hold.key, time, events, words));
    if Released::of(&released.value).removed == Some(false) {
        let words = format!("{begun}: this release says that it removed nothing");
        return of(released.time, vec![hold.from, released.index], words);
    }
    let stayed = (released.time, lease.earliest.ns);
    let key = keys.get(hold.key)?;
    let is_long = run.stalls.rest_of(stayed) >= hold.ttl_ns.unwrap_or(u64::MAX) / STAYED_SHARE;
    let is_idle = is_long && length_ns(&key.idle(stayed)) == stayed.1 - stayed.0;
    if !is_idle {
        return None;
    }
    let within = key.failed_within(stayed);
    let refused = within.iter().filter(|acquire| acquire.invoke.time > stayed.0);
    let refused: Vec<u64> =
        refused.filter_map(|acquire| acquire.completion).map(|end| end.index).take(10).collect();
    if refused.is_empty() || run.setting().any_fault(hold.invoke_ns, stayed.1) {
        return None;
    }
    let words = format!(
        "{begun}; until its lease was over, at {}, no process held the lock, processes tried to acquire it at every moment, and \
         none of them got it",
        seconds(stayed.1),
    );
    of(stayed.1, [vec![hold.from, released.index], refused].concat(), words)
}

fn shut_out(run: &RunIndex, at: usize, section: &Section) -> Option<Finding> {
    let hold = &run.holds[at];
    let is_taken = |error: &fencepost_history::OperationError| error.code() == ErrorCode::Taken;
    let ended = section.refused.iter().filter_map(|refused| refused.completion);
    let end = ended.into_iter().find(|end| end.error.as_ref().is_some_and(is_taken))?;
    let runs = hold.lease_at(end.index).is_none_or(|lease| lease.earliest.ns > end.time);
    let mut later = run.holds[at + 1..].iter().take_while(|other| other.from < end.index);
    if !runs || run.setting().any_fault(hold.invoke_ns, end.time) || later.any(|other| other.key == hold.key)
    {
        return None;
    }
    let (acquired, answered) = (hold.acquired(), seconds(end.time));
    let words = format!(
        "{acquired}; when it acquired it again, it was answered at {answered} that the lock was taken, while its own lease ran"
    );
    Some(Finding::new(SHUT_OUT, hold.key, end.time, vec![hold.from, end.index], words))
}

#[cfg(test)]
mod tests;
