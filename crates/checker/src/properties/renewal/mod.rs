//! Renewal: a lock that announces that it renews its lease (`extend`) does so while its holder holds, or
//! tells its holder that the lock is lost. A lock that never reported a renewal is not judged: its library
//! may renew without a word.
//!
//! - *Violation*, `stopped-renewing`: a process certainly believed in its hold for longer than [`LATE_NS`]
//!   beyond the end of the lease, as its latest renewal (or a later answer to the acquire) dates that, and no
//!   notice had come that the lock was lost. A hold whose client was hit by a fault meanwhile does not count,
//!   since it could neither renew nor notify.
//! - *Violation*, `prolonged-when-lost`: a renewal was asked for after another process had been granted the
//!   lock, and succeeded. A lock that was another's in between can only be acquired anew, which its holder
//!   has to know of. Where a fault had hit the servers meanwhile, they may have had two locks at once: that
//!   is a matter of mutual exclusion.
//! - *Violation*, `revived`: a lock was prolonged by its holder's own operation (`prolong`, or `reenter` of a
//!   reentrant lock) after it had certainly run out, and no clock had been moved: it was set anew, or the
//!   answer was no answer.
//! - *Violation*, `cut-short`: a `prolong` was answered, and another process was granted the lock within the
//!   TTL that it promised, although its holder had not released it and nothing had touched the servers.

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::prose::seconds;
use crate::run_index::{Fault, Hold, RunIndex};
use crate::verdict::{Finding, Verdict};
use fencepost_history::{Lease, LockKind, f};
use rustc_hash::FxHashMap;

figures! {
    /// How often leases were renewed.
    RenewalFigures of "renewal" {
        renewals: u64,
        /// Holds whose renewal stopped without a word.
        stopped: u64,
    }
}

/// How long after the end of its lease a holder may act: renewals and notices take time on a busy machine.
pub const LATE_NS: u64 = 1_000_000_000;

pub(super) const RENEWAL: Checker = Checker {
    classes: &[
        FindingClass {
            name: "stopped-renewing",
            meaning: "The library renews its locks, and stopped renewing one while its holder held it, without reporting that.",
            advice: "Look at the thread or task that renews: an error, a limit or a lock that it waits for may have ended it.",
        },
        FindingClass {
            name: "prolonged-when-lost",
            meaning: "A renewal succeeded although another process had been granted the lock since.",
            advice: "Prolong a lease only if it still holds this process's own value, in one step, and never acquire it anew.",
        },
        FindingClass {
            name: "revived",
            meaning: "A lock that had run out was prolonged, as if it had been held all the time.",
            advice: "Refuse to prolong a lock that is gone: another may have held it meanwhile.",
        },
        FindingClass {
            name: "cut-short",
            meaning: "A prolong succeeded, but another process got the lock before the promised time was over.",
            advice: "Look at what a prolong does to the lease: with no TTL of its own, it may end the lock at once.",
        },
    ],
    claim: Some("exclusion"),
    ..Checker::of::<RenewalFigures>(
        "renewal: a lock that announces renewals renews its lease while it is held, or says that it is lost",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let renewals: usize = run.holds.iter().map(|hold| hold.renewals.len()).sum();
    let renews = run.lock.can("extend");
    let by_holder = run.lock.can(f::PROLONG) || run.lock.kind == LockKind::Reentrant;
    not_judged_if!(
        !renews && (renewals == 0 || !by_holder),
        "the lock does not announce that it renews its lease"
    );
    not_judged_if!(
        renewals == 0,
        "the client announces renewals (`extend`) and reported none: no hold was long enough, or its library renews silently"
    );
    let mut prolonged: Vec<Finding> = prolonged(run);
    prolonged.extend(run.holds.iter().filter_map(|hold| revived(run, hold)));
    let stopped = |hold: &Hold| stopped(run, hold).filter(|_| renews);
    let stopped: Vec<Finding> = run.holds.iter().filter_map(stopped).collect();
    let figures = RenewalFigures { renewals: renewals as u64, stopped: stopped.len() as u64 };
    let findings: Vec<Finding> = prolonged.into_iter().chain(stopped).collect();
    let (holds, count) = (run.holds.len(), findings.len());
    let summary = match &findings[..] {
        [] => format!(
            "no holder acted beyond a lease that was renewed, in {holds} holds and {renewals} renewals"
        ),
        [only] => only.sentence.clone(),
        [first, ..] if figures.stopped < count as u64 => {
            format!("in {count} of {holds} holds: {}", first.sentence)
        }
        _ => format!(
            "the library stopped renewing {count} of {holds} holds while their holders held the lock, without telling"
        ),
    };
    Ok(checker.judged(summary, &figures, findings))
}

/// Of each hold the first renewal that succeeded although another process had been granted the lock.
fn prolonged(run: &RunIndex) -> Vec<Finding> {
    let mut by_key: FxHashMap<&str, Vec<&Hold>> = FxHashMap::default();
    for hold in run.holds.iter().filter(|hold| hold.lease == Lease::Ttl) {
        by_key.entry(hold.key).or_default().push(hold);
    }
    // In the order of their grants, so that those after a hold come after it.
    let of_key = |holds: Vec<&Hold>| {
        let each = holds.iter().enumerate().filter_map(|(at, hold)| {
            let asked_last_ns = hold.renewals.last()?.1;
            let is_other = |other: &&&Hold| {
                other.process != hold.process
                    && hold.excludes(other)
                    && other.granted.earliest.ns >= hold.from_ns
                    && !other.was_over_at_once()
            };
            let other =
                holds[at + 1..].iter().take_while(|other| other.from_ns < asked_last_ns).find(is_other)?;
            let &(index, asked_ns) = hold.renewals.iter().find(|(_, asked_ns)| *asked_ns > other.from_ns)?;
            let effect = run.setting().on_service(hold.invoke_ns, hold.granted.earliest.ns, asked_ns);
            effect.is_none().then(|| prolonged_when_lost(hold, other, (index, asked_ns)))
        });
        let short = holds.iter().enumerate().filter_map(|(at, hold)| cut_short(run, hold, &holds[at + 1..]));
        each.chain(short).collect::<Vec<Finding>>()
    };
    let mut findings: Vec<Finding> = by_key.into_values().flat_map(of_key).collect();
    findings.sort_by_key(|finding| (finding.time, finding.events.clone()));
    findings
}

fn prolonged_when_lost(hold: &Hold, other: &Hold, (index, asked_ns): (u64, u64)) -> Finding {
    let [granted, asked] = [other.from_ns, asked_ns].map(seconds);
    let sentence = format!(
        "{}, process {} was granted it at {granted}, and a renewal that process {} asked for at {asked} succeeded all the same",
        hold.acquired(),
        other.process,
        hold.process,
    );
    Finding::new("prolonged-when-lost", hold.key, asked_ns, vec![hold.from, other.from, index], sentence)
}

/// Another's grant within the time that a holder's own operation had prolonged its lock for.
fn cut_short(run: &RunIndex, hold: &Hold, later: &[&Hold]) -> Option<Finding> {
    let answered = |index: u64| run.event(index).filter(|event| event.f == f::PROLONG);
    let (index, asked_ns, answered_ns) = hold
        .renewals
        .iter()
        .rev()
        .find_map(|&(index, asked_ns)| answered(index).map(|event| (index, asked_ns, event.time)))?;
    let ttl_ns = hold.ttl_ns?;
    // It had not ended in any other way, either: by a release, or a notice that it is lost.
    let until_ns = asked_ns.saturating_add(ttl_ns).min(hold.end_earliest_ns());
    let is_other =
        |other: &&&Hold| other.process != hold.process && hold.excludes(other) && !other.was_over_at_once();
    let is_short = |other: &&&Hold| other.granted.earliest.ns >= answered_ns && other.from_ns < until_ns;
    // Only the first one: where another had the lock before, what was prolonged was lost.
    let other = later.iter().find(is_other).filter(is_short)?;
    let moved = |fault: &Fault| fault.description.moves_clocks && fault.inject_ns <= other.from_ns;
    let effect = run.setting().on_service(hold.invoke_ns, hold.granted.earliest.ns, other.from_ns);
    if effect.is_some() || run.faults.iter().any(moved) {
        return None;
    }
    let [asked, ttl, granted] = [asked_ns, ttl_ns, other.from_ns].map(seconds);
    let sentence = format!(
        "{}; a prolong that it asked for at {asked} succeeded, for {ttl}, and process {} was granted the lock at {granted}",
        hold.acquired(),
        other.process,
    );
    Some(Finding::new("cut-short", hold.key, other.from_ns, vec![hold.from, index, other.from], sentence))
}

/// The first operation of a holder that prolonged its lock once it had certainly run out.
fn revived(run: &RunIndex, hold: &Hold) -> Option<Finding> {
    let over_ns = |index: u64| {
        // One that was prolonged runs from any moment until the answer.
        let earlier = hold.renewals.iter().filter(|(earlier, _)| *earlier < index);
        let answered = earlier.filter_map(|(earlier, _)| run.event(*earlier)).map(|event| event.time).max();
        let prolonged = answered.unwrap_or(0).saturating_add(hold.ttl_ns.unwrap_or(0));
        hold.lease_at(index - 1).map_or(u64::MAX, |lease| lease.latest.ns.max(prolonged))
    };
    let by_operation = |index: u64| run.event(index).filter(|it| [f::PROLONG, f::REENTER].contains(&&*it.f));
    let is_late =
        |&&(index, asked_ns): &&(u64, u64)| by_operation(index).is_some() && asked_ns > over_ns(index);
    let &(index, asked_ns) = hold.renewals.iter().filter(|_| hold.lease == Lease::Ttl).find(is_late)?;
    let moved = |fault: &Fault| fault.description.moves_clocks && fault.inject_ns <= asked_ns;
    let effect = run.setting().on_service(hold.invoke_ns, hold.granted.earliest.ns, asked_ns);
    let name = &by_operation(index)?.f;
    if effect.is_some() || run.faults.iter().any(moved) {
        return None;
    }
    let [over, asked] = [over_ns(index), asked_ns].map(seconds);
    let sentence = format!(
        "{}; the lock had run out at {over} at the latest, and a {name} that it asked for at {asked} succeeded all the same",
        hold.acquired(),
    );
    Some(Finding::new("revived", hold.key, asked_ns, vec![hold.from, index], sentence))
}

fn stopped(run: &RunIndex, hold: &Hold) -> Option<Finding> {
    let over_ns = hold.lease_at(hold.until)?.latest.ns;
    let own = run.nodes.client_of(hold.process);
    let hit = |fault: &Fault| {
        own.is_none_or(|own| fault.targets.contains(&own)) && fault.in_force(hold.invoke_ns, hold.until_ns)
    };
    // It did not stop that was renewed later on; whether in time is another matter.
    if hold.renewals.iter().any(|(_, asked_ns)| *asked_ns > over_ns) {
        return None;
    }
    // After a notice of the loss nothing shows belief, so that one who was notified is none of these.
    if hold.until_ns <= over_ns.saturating_add(LATE_NS) || run.faults.iter().any(hit) {
        return None;
    }
    let renewed = match hold.renewals.last() {
        Some((_, asked_ns)) => format!("was last renewed at {}", seconds(*asked_ns)),
        None => "was never renewed".to_owned(),
    };
    let [until, over] = [hold.until_ns, over_ns].map(seconds);
    let sentence = format!(
        "{} and believed until {until} that it held it; its lease {renewed} and was over at {over} at the latest, and its \
         library did not say so",
        hold.acquired(),
    );
    Some(Finding::new("stopped-renewing", hold.key, hold.until_ns, vec![hold.from, hold.until], sentence))
}

#[cfg(test)]
mod tests;
