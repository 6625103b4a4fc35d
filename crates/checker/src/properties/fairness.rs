//! Fairness: who tries gets the lock.
//!
//! A run without faults is looked at, up to the phase in which it is closed.
//!
//! *Figures.* The longest wait is the time that a process spent in acquires of one key until it was granted it. A process
//! is starved if it spent more than the bound in acquires and was granted nothing. The bound is twice the sum of the longest
//! TTL and the longest time of an acquire, and at least [`BOUND_MIN_NS`]. How long a process waits is no matter of right or
//! wrong, so neither breaks the property.
//!
//! *Idle* is a stretch of time in which a key was certainly free, while acquires of it were under way at every moment, however they
//! ended. In peace a lock has no reason for that: a waiter that is not woken, a queue that is blocked by an entry of no process, and
//! processes that keep each other from the lock show so. The bound is twice the longest TTL and a second, and at least
//! [`BOUND_MIN_NS`]; what processes give an acquire has no part in it.
//!
//! *In vain* is the time in which acquires of a key were under way that failed, while no process held the key, released
//! it, or was about to be granted it.
//!
//! - *Violation*: a key was never granted, although it was tried for in vain for longer than the bound while it was certainly free. An
//!   acquire that ended without a certain no may have taken the key for a TTL, or for good where there is none. Errors
//!   that a slow machine explains prove nothing, either.
//! - *Violation*: a key was idle for longer than its bound.
//! - *Not judged*: the run was shorter than the bound, so it could not have been violated.
//! - *Vacuous*: for more than half of the time, and longer than the bound, a key was tried for in vain. With so few
//!   grants hardly anything was tested.

use super::checker::{Checker, FindingClass, NotJudged};
use crate::prose::seconds;
use crate::run_index::{Operation, RunIndex};
use crate::spans::{Span, difference, length_ns, union};
use crate::verdict::{Finding, Outcome, Verdict};
use fencepost_history::{ErrorCode, Kind, RunPhase, f};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

pub struct Fairness;

/// The shortest bound: a machine may have other things to do for so long.
const BOUND_MIN_NS: u64 = 5_000_000_000;

/// Fewer attempts than this prove nothing.
const ATTEMPTS_MIN: usize = 10;

/// What happened to a key while it was tried for.
#[derive(Default)]
struct Key<'a> {
    granted: usize,
    failed: Vec<&'a Operation<'a>>,
    /// When any acquire was under way.
    wanted: Vec<Span>,
    /// When a process held it, released it, or was about to be granted it.
    taken: Vec<Span>,
    /// When an acquire that ended without a certain no may have taken it.
    perhaps: Vec<Span>,
}

/// How long a key was tried for in vain.
struct InVain<'a> {
    name: &'a str,
    key: Key<'a>,
    tried_ns: u64,
    /// While it was certainly free.
    certain_ns: u64,
    /// The longest stretch in which it was certainly free and wanted, however the attempts ended.
    idle: Span,
}

impl Checker for Fairness {
    fn name(&self) -> &'static str {
        "fairness"
    }

    fn about(&self) -> &'static str {
        "fairness: without faults, processes that try get the lock"
    }

    fn classes(&self) -> &'static [FindingClass] {
        &[
            FindingClass {
                name: "never-granted",
                meaning: "Without any fault, a free lock was granted to no process, however often it was tried for.",
                advice: "Try the library by hand with one process: it may wait for something that never comes.",
            },
            FindingClass {
                name: "idle",
                meaning: "Without any fault, processes tried for a free lock for a long time, and none got it.",
                advice: "Look for a waiter that is not woken, an entry in the queue whose process is gone, or attempts that keep each other from the lock.",
            },
        ]
    }

    fn claim(&self) -> Option<&'static str> {
        Some("progress")
    }

    fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged> {
        if !run.is_in_peace() {
            return Err(NotJudged::because("faults were injected, for which processes may have to wait"));
        }
        let open = open_span(run);
        let waits = waits(run, open);
        if waits.is_empty() {
            return Err(NotJudged::because("no process tried to acquire a lock"));
        }
        let bound_ns = BOUND_MIN_NS.max(2 * (run.longest_ttl_ns() + run.longest_timeout_ns()));
        let in_vain: Vec<InVain> =
            keys(run, open).into_iter().map(|(name, key)| in_vain(name, key, open)).collect();
        let never: Vec<Finding> =
            in_vain.iter().filter_map(|each| never_granted(each, bound_ns, open)).collect();
        let idle_bound_ns = idle_bound_ns(run);
        let idle = in_vain.iter().filter(|each| never.iter().all(|finding| finding.key != each.name));
        let idle: Vec<Finding> = idle.filter_map(|each| idle_too_long(each, idle_bound_ns)).collect();
        let hardly =
            in_vain.iter().find(|each| each.tried_ns >= bound_ns && 2 * each.tried_ns > open.1 - open.0);
        let length_ns = open.1 - open.0;
        if never.is_empty() && idle.is_empty() && hardly.is_none() && length_ns < idle_bound_ns {
            return Err(NotJudged::because(format!(
                "the run was shorter ({}) than the bound ({}); {}",
                seconds(length_ns),
                seconds(idle_bound_ns),
                figures(&waits, bound_ns),
            )));
        }
        let (outcome, summary) = match (never.first().or(idle.first()), hardly) {
            (Some(finding), _) => (Outcome::Violation, finding.sentence.clone()),
            (None, Some(each)) => (Outcome::Vacuous, hardly_tested(each, open)),
            (None, None) => (Outcome::Valid, figures(&waits, bound_ns)),
        };
        let longest_ns = waits.values().map(|wait| wait.longest_ns).max().unwrap_or(0);
        let in_vain_ns = in_vain.iter().map(|each| each.tried_ns).max().unwrap_or(0);
        let verdict = Verdict::new(self.name(), outcome, summary)
            .stat("longest_wait_ms", longest_ns / 1_000_000)
            .stat("starved", starved(&waits, bound_ns))
            .stat("in_vain_ms", in_vain_ns / 1_000_000)
            .stat("idle_ms", in_vain.iter().map(|each| length_of(each.idle)).max().unwrap_or(0) / 1_000_000);
        Ok(verdict.with_findings([never, idle].concat()))
    }
}

/// How long a free lock may be idle in peace.
fn idle_bound_ns(run: &RunIndex) -> u64 {
    BOUND_MIN_NS.max(2 * run.longest_ttl_ns() + 1_000_000_000)
}

fn length_of(span: Span) -> u64 {
    span.1 - span.0
}

fn idle_too_long(each: &InVain, bound_ns: u64) -> Option<Finding> {
    let (from_ns, to_ns) = each.idle;
    let within: Vec<&&Operation> = each
        .key
        .failed
        .iter()
        .filter(|acquire| {
            acquire.invoke.time < to_ns && acquire.completion.is_some_and(|end| end.time > from_ns)
        })
        .collect();
    let slow = within.iter().filter(|acquire| is_by_slowness(acquire)).count();
    if length_of(each.idle) <= bound_ns || 2 * slow > within.len() {
        return None;
    }
    let ended = within.iter().filter_map(|acquire| acquire.completion);
    Some(Finding {
        class: "idle".to_owned(),
        key: each.name.to_owned(),
        time: to_ns,
        events: ended.take(ATTEMPTS_MIN).map(|end| end.index).collect(),
        sentence: format!(
            "without any fault, {} was certainly free from {} to {}, and at every moment of these {} processes tried to acquire it; {} \
             attempts failed",
            lock(each.name),
            seconds(from_ns),
            seconds(to_ns),
            seconds(length_of(each.idle)),
            within.len(),
        ),
        ..Finding::default()
    })
}

/// Whether an attempt failed for a reason that a slow machine explains.
fn is_by_slowness(acquire: &Operation) -> bool {
    let slow = [
        ErrorCode::Timeout,
        ErrorCode::Disconnected,
        ErrorCode::Unavailable,
        ErrorCode::Unreachable,
        ErrorCode::ClientGone,
        ErrorCode::NoMajority,
        ErrorCode::Expired,
        ErrorCode::SessionExpired,
    ];
    let error = acquire.completion.and_then(|end| end.error.as_ref());
    error.is_some_and(|error| slow.contains(&error.code()))
}

/// From the beginning of the run to the moment at which it is closed.
fn open_span(run: &RunIndex) -> Span {
    let from_ns = run.phase(RunPhase::Main).map_or(0, |phase| phase.from_ns);
    let close = [RunPhase::Heal, RunPhase::Closing].into_iter().find_map(|phase| run.phase(phase));
    (from_ns, close.map_or(run.end_ns, |phase| phase.from_ns).max(from_ns))
}

/// The acquires that ended and began while the run was open, with the moments between which they were under way.
fn acquires<'a>(run: &'a RunIndex<'a>, open: Span) -> impl Iterator<Item = (&'a Operation<'a>, Kind, Span)> {
    let acquires = run.operations.iter().filter(|operation| operation.f() == f::ACQUIRE);
    acquires.filter_map(move |acquire| {
        let (began_ns, end) = (acquire.invoke.time, acquire.completion?);
        (open.0..open.1).contains(&began_ns).then_some((acquire, end.kind, (began_ns, end.time)))
    })
}

/// How a process fared.
#[derive(Default)]
struct Wait {
    granted: usize,
    /// Spent in acquires, all together.
    tried_ns: u64,
    longest_ns: u64,
}

/// Of each process that tried.
fn waits(run: &RunIndex, open: Span) -> FxHashMap<u64, Wait> {
    let mut waits: FxHashMap<u64, Wait> = FxHashMap::default();
    let mut since_grant: FxHashMap<(u64, &str), u64> = FxHashMap::default();
    for (acquire, kind, (began_ns, ended_ns)) in acquires(run, open) {
        let wait = waits.entry(acquire.process).or_default();
        let waited_ns = since_grant.entry((acquire.process, acquire.key)).or_default();
        *waited_ns += ended_ns - began_ns;
        wait.tried_ns += ended_ns - began_ns;
        if kind == Kind::Ok {
            wait.granted += 1;
            wait.longest_ns = wait.longest_ns.max(std::mem::take(waited_ns));
        }
    }
    waits
}

fn starved(waits: &FxHashMap<u64, Wait>, bound_ns: u64) -> usize {
    waits.values().filter(|wait| wait.granted == 0 && wait.tried_ns >= bound_ns).count()
}

fn figures(waits: &FxHashMap<u64, Wait>, bound_ns: u64) -> String {
    let longest = waits.values().map(|wait| wait.longest_ns).max().unwrap_or(0);
    let all = waits.len();
    let got = waits.values().filter(|wait| wait.granted > 0).count();
    let starved = match starved(waits, bound_ns) {
        0 => String::new(),
        count => format!("; {count} tried for more than {} and never got it", seconds(bound_ns)),
    };
    format!("{got} of {all} processes got the lock, after at most {}{starved}", seconds(longest))
}

fn keys<'a>(run: &'a RunIndex<'a>, open: Span) -> BTreeMap<&'a str, Key<'a>> {
    let mut keys: BTreeMap<&str, Key> = BTreeMap::new();
    for (acquire, kind, (began_ns, ended_ns)) in acquires(run, open) {
        let key = keys.entry(acquire.key).or_default();
        key.wanted.push((began_ns, ended_ns));
        if kind == Kind::Ok {
            key.granted += 1;
            continue;
        }
        key.failed.push(acquire);
        if !acquire.certainly_not() {
            let free_ns = run.ttl_ns(acquire).map_or(u64::MAX, |ttl_ns| ended_ns.saturating_add(ttl_ns));
            key.perhaps.push((began_ns, free_ns));
        }
    }
    for hold in &run.holds {
        if let Some(key) = keys.get_mut(hold.key) {
            key.taken.push((hold.attempt_ns.unwrap_or(hold.invoke_ns), hold.claimed_until_ns()));
        }
    }
    for operation in &run.operations {
        let ended_ns = operation.completion.map_or(u64::MAX, |end| end.time);
        let released = operation.f() == f::RELEASE || operation.completion.is_none();
        if let Some(key) = keys.get_mut(operation.key).filter(|_| released) {
            key.taken.push((operation.invoke.time, ended_ns));
        }
    }
    keys
}

fn in_vain<'a>(name: &'a str, mut key: Key<'a>, open: Span) -> InVain<'a> {
    let span = |acquire: &&Operation| {
        (acquire.invoke.time, acquire.completion.map_or(acquire.invoke.time, |end| end.time))
    };
    let failed = union(key.failed.iter().map(span).collect());
    let taken = union(std::mem::take(&mut key.taken));
    let not_certainly_free = union([&taken[..], &key.perhaps].concat());
    let wanted = union(std::mem::take(&mut key.wanted));
    let idle = difference(&wanted, &not_certainly_free, open);
    InVain {
        name,
        tried_ns: length_ns(&difference(&failed, &taken, open)),
        certain_ns: length_ns(&difference(&failed, &not_certainly_free, open)),
        idle: idle.into_iter().max_by_key(|span| length_of(*span)).unwrap_or((open.0, open.0)),
        key,
    }
}

fn never_granted(each: &InVain, bound_ns: u64, open: Span) -> Option<Finding> {
    let InVain { name, key, certain_ns, .. } = each;
    let all = key.failed.len();
    let slow = key.failed.iter().filter(|acquire| is_by_slowness(acquire)).count();
    if key.granted > 0 || all < ATTEMPTS_MIN || *certain_ns < bound_ns || 2 * slow > all {
        return None;
    }
    let ended = key.failed.iter().filter_map(|acquire| acquire.completion);
    Some(Finding {
        class: "never-granted".to_owned(),
        key: (*name).to_owned(),
        time: open.1,
        events: ended.take(ATTEMPTS_MIN).map(|end| end.index).collect(),
        sentence: format!(
            "without any fault, none of {all} attempts to acquire {} succeeded in {}, although for {} of that time it was \
             certainly free",
            lock(name),
            seconds(open.1 - open.0),
            seconds(*certain_ns),
        ),
        ..Finding::default()
    })
}

fn hardly_tested(each: &InVain, open: Span) -> String {
    format!(
        "for {} of {} no process held {}, and {} attempts to acquire it failed: it was granted {}, so hardly anything was \
         tested",
        seconds(each.tried_ns),
        seconds(open.1 - open.0),
        lock(each.name),
        each.key.failed.len(),
        match each.key.granted {
            0 => "never".to_owned(),
            count => crate::prose::times(count as u64),
        },
    )
}

fn lock(name: &str) -> &str {
    if name.is_empty() { "the lock" } else { name }
}

#[cfg(test)]
mod tests;
