//! Fairness: who tries gets the lock. A run without faults is looked at, up to the phase in which it is
//! closed. [`wants`](crate::wants) says what wanted, taken and idle is.
//!
//! - *Violation*, `never-granted`: a key was never granted, although it was tried for in vain for longer than
//!   the bound while it certainly had no holder. Errors that a slow machine explains prove nothing, and the
//!   time in which the machine stalled counts nowhere.
//! - *Violation*, `idle`: a key was idle for longer than the idle bound at a stretch; or for more than half
//!   of the run, and longer than the bound, in stretches of [`STRETCH_MIN_NS`] and more. Without faults a
//!   lock has no reason for either: a waiter that is not woken, a queue that is blocked by an entry of no
//!   process, and processes that keep each other from the lock show so.
//! - *Violation*, `starved`: from their first attempts after their last grants on, one or more processes were
//!   granted nothing for longer than the idle bound, however short their attempts were, while others were
//!   granted the key so often that it is no [`chance`].
//! - *Violation*, `keys-share-a-lock`: no two of some keys were ever held at once ([`keys`]).
//! - *Not judged*: the run was shorter than the idle bound; or at its end a process had waited in vain for
//!   longer than that, and longer than any process that was granted a key at last, while others got the key,
//!   and it may be chance; or there were faults. Then the figures are part of the reason.
//! - *Vacuous*: for more than half of the time, and longer than the bound, a key was tried for in vain: with
//!   so few grants hardly anything was tested.
//!
//! The idle bound is twice the longest TTL and a second, and at least [`BOUND_MIN_NS`], whatever time an
//! acquire has. The bound of a key that is never granted is twice the sum of the longest TTL and the longest
//! time of an acquire, and at least [`BOUND_MIN_NS`]. *Figures*: the longest wait, from a process's first
//! attempt after its last grant to the next one; the most grants in a row to one process, beside others.

mod chance;
mod keys;
mod waits;

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::prose::{lock, seconds};
use crate::run_index::RunIndex;
use crate::slowness::are_by_slowness;
use crate::spans::Span;
use crate::verdict::{Finding, Outcome, Verdict};
use crate::wants::{View, Wants, length_of, wants};
use crate::whose::Harm;
use fencepost_history::RunPhase;
use waits::{LeftOutProcesses, Waits};

figures! {
    /// How long processes waited.
    FairnessFigures of "fairness" {
        longest_wait_ms: u64,
        /// Processes that had waited for longer than the bound at the end.
        starved: u64,
        in_a_row: u64,
        in_vain_ms: u64,
        idle_ms: u64,
    }
}

/// The shortest bound: a machine may have other things to do for so long.
const BOUND_MIN_NS: u64 = 5_000_000_000;

const ATTEMPTS_MIN: usize = 10;

/// Shorter stretches in which a key is idle are those of a lock that is asked for now and then.
const STRETCH_MIN_NS: u64 = 1_000_000_000;

struct InVain<'a> {
    name: &'a str,
    key: Wants<'a>,
    tried_ns: u64,
    /// While it certainly had no holder.
    certain_ns: u64,
    idle: Vec<Span>,
}

pub(super) const FAIRNESS: Checker = Checker {
    classes: &[
        FindingClass {
            name: "never-granted",
            meaning: "Without any fault, a free lock was granted to no process, however often it was tried for.",
            advice: "Try the library by hand with one process: it may wait for something that never comes.",
        },
        FindingClass {
            name: "idle",
            meaning: "Without any fault, processes tried for a lock that no process held for a long time, and none got it.",
            advice: "Look for a waiter that is not woken, an entry in the queue whose process is gone, or attempts that keep each other from the lock.",
        },
        FindingClass {
            name: "starved",
            meaning: "Without any fault, one or more processes never got the lock for a long time, while others got it over and over.",
            advice: "Look for something that an acquire leaves behind where it fails; else let those who wait queue up, or let a process that has released the lock wait before it asks again.",
        },
        FindingClass {
            name: "keys-share-a-lock",
            meaning: "Without any fault, two keys were never held at once, as if both names led to one lock.",
            advice: "Look at how the library derives its lock from a name: from the whole name, from a part of it, or from none of it.",
        },
    ],
    claim: Some("progress"),
    harm: Harm::Stuck,
    needs_a_whole_run: true,
    ..Checker::of::<FairnessFigures>("fairness: without faults, processes that try get the lock", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let open = open_span(run);
    let (bound_ns, idle_bound_ns) = (bound_ns(run), idle_bound_ns(run));
    let waits = Waits::of(run, open);
    not_judged_if!(waits.are_none(), "no process tried to acquire a lock");
    let in_vain = in_vain(run, open);
    let idle = in_vain.iter().flat_map(|each| &each.idle);
    let idle_ns = idle.map(|stretch| run.stalls.rest_of(*stretch)).max().unwrap_or(0);
    not_judged_if!(
        !run.is_in_peace(),
        "faults were injected, so processes may have to wait: {}; the longest wait for a free lock was {}",
        waits.figures(idle_bound_ns),
        seconds(idle_ns),
    );
    let never: Vec<Finding> =
        in_vain.iter().filter_map(|each| never_granted(run, each, bound_ns, open)).collect();
    // Of keys that are one lock, each is idle while another is held.
    let shared = keys::that_are_one_lock(run, open);
    let is_shared = |name: &str| shared.iter().any(|one| one.names.contains(&name));
    let idle = in_vain
        .iter()
        .filter(|each| never.iter().all(|finding| finding.key != each.name) && !is_shared(each.name));
    let idle: Vec<Finding> = idle.filter_map(|each| idle_too_long(run, each, idle_bound_ns, open)).collect();
    let starved = if idle.is_empty() { waits.starved(idle_bound_ns) } else { Vec::new() };
    let starved: Vec<Finding> = starved.iter().map(LeftOutProcesses::finding).collect();
    let shared: Vec<Finding> = shared.into_iter().map(|one| one.finding).collect();
    let findings = [never, shared, idle, starved].concat();
    let hardly = in_vain.iter().find(|each| each.tried_ns >= bound_ns && 2 * each.tried_ns > length_of(open));
    let figures = || waits.figures(idle_bound_ns);
    if findings.is_empty()
        && hardly.is_none()
        && let Some(reason) = too_short(run, &waits, open, idle_bound_ns)
    {
        return Err(NotJudged::because(format!("{reason}; {}", figures())));
    }
    let (outcome, summary) = match (findings.first(), hardly) {
        (Some(finding), _) => (Outcome::Violation, finding.sentence.clone()),
        (None, Some(each)) => (Outcome::Vacuous, hardly_tested(each, open)),
        (None, None) => (Outcome::Valid, figures()),
    };
    let in_vain_ns = in_vain.iter().map(|each| each.tried_ns).max().unwrap_or(0);
    let verdict = Verdict::new(checker.name, outcome, summary).with_figures(&FairnessFigures {
        longest_wait_ms: waits.longest_ns() / 1_000_000,
        starved: waits.in_vain(idle_bound_ns) as u64,
        in_a_row: waits.in_a_row as u64,
        in_vain_ms: in_vain_ns / 1_000_000,
        idle_ms: idle_ns / 1_000_000,
    });
    Ok(verdict.with_findings(findings))
}

/// Why nothing that a run without findings shows could be a violation yet, as a clause.
fn too_short(run: &RunIndex, waits: &Waits, open: Span, bound_ns: u64) -> Option<String> {
    let (stalled_ns, rest_ns) = (run.stalls.within(open), run.stalls.rest_of(open));
    if rest_ns < bound_ns {
        let stalled = format!(", without the {} in which the machine stalled,", seconds(stalled_ns));
        let stalled = if stalled_ns == 0 { "" } else { &stalled };
        let (rest, bound) = (seconds(rest_ns), seconds(bound_ns));
        return Some(format!("the run{stalled} lasted {rest}, less than the bound of {bound}"));
    }
    let left_out = waits.waits_at_the_end(bound_ns)?;
    let why =
        if left_out.is_by_slowness() { "errors of a slow machine may be why" } else { "that may be chance" };
    Some(format!("{}: {why}", left_out.in_words()))
}

fn bound_ns(run: &RunIndex) -> u64 {
    BOUND_MIN_NS.max(2 * (run.longest_ttl_ns() + run.longest_timeout_ns()))
}

/// How long a lock may be idle without faults, or be granted to others only.
fn idle_bound_ns(run: &RunIndex) -> u64 {
    BOUND_MIN_NS.max(2 * run.longest_ttl_ns() + 1_000_000_000)
}

fn idle_too_long(run: &RunIndex, each: &InVain, bound_ns: u64, open: Span) -> Option<Finding> {
    let length_of_rest = |span: &Span| run.stalls.rest_of(*span);
    let long = || each.idle.iter().copied().filter(|span| length_of_rest(span) >= STRETCH_MIN_NS);
    let (stretch, all_ns) =
        (long().max_by_key(length_of_rest)?, long().map(|span| length_of_rest(&span)).sum::<u64>());
    let within = each.key.failed_within(stretch);
    let is_mostly_idle = all_ns > bound_ns && 2 * all_ns > length_of(open);
    if length_of_rest(&stretch) <= bound_ns && !is_mostly_idle || are_by_slowness(&within) {
        return None;
    }
    let [from, to, length] = [stretch.0, stretch.1, length_of(stretch)].map(seconds);
    let lock = lock(each.name);
    let failed = match within.len() {
        0 => "none of them got it".to_owned(),
        count => format!("{count} attempts failed"),
    };
    let in_all = match is_mostly_idle && long().count() > 1 {
        true => format!("; in all that was so for {} of {}", seconds(all_ns), seconds(length_of(open))),
        false => String::new(),
    };
    let sentence = format!(
        "without any fault, no process held {lock} from {from} to {to}, while at every moment of these {length} processes tried to acquire \
         it: {failed}{in_all}"
    );
    let ended = within.iter().filter_map(|acquire| acquire.completion);
    let events = ended.take(ATTEMPTS_MIN).map(|end| end.index).collect();
    Some(Finding::new("idle", each.name, stretch.1, events, sentence))
}

fn open_span(run: &RunIndex) -> Span {
    let from_ns = run.phase(RunPhase::Main).map_or(0, |phase| phase.from_ns);
    let close = [RunPhase::Heal, RunPhase::Closing].into_iter().find_map(|phase| run.phase(phase));
    (from_ns, close.map_or(run.end_ns, |phase| phase.from_ns).max(from_ns))
}

fn in_vain<'a>(run: &'a RunIndex<'a>, open: Span) -> Vec<InVain<'a>> {
    let keys = wants(run, open, View::Holders).into_iter();
    let of_key = |(name, key): (&'a str, Wants<'a>)| {
        let (tried_ns, certain_ns) = key.in_vain_ns(open);
        InVain { name, tried_ns, certain_ns, idle: key.idle(open), key }
    };
    keys.map(of_key).collect()
}

fn never_granted(run: &RunIndex, each: &InVain, bound_ns: u64, open: Span) -> Option<Finding> {
    let InVain { name, key, certain_ns, .. } = each;
    let all = key.failed.len();
    let is_proven = certain_ns.saturating_sub(run.stalls.within(open)) >= bound_ns;
    if key.granted > 0 || all < ATTEMPTS_MIN || !is_proven || are_by_slowness(&key.failed) {
        return None;
    }
    let ended = key.failed.iter().filter_map(|acquire| acquire.completion);
    let [length, certain] = [open.1 - open.0, *certain_ns].map(seconds);
    let sentence = format!(
        "without any fault, none of {all} attempts to acquire {} succeeded in {length}, although for {certain} of that time no \
         process held it",
        lock(name),
    );
    let events = ended.take(ATTEMPTS_MIN).map(|end| end.index).collect();
    Some(Finding::new("never-granted", name, open.1, events, sentence))
}

fn hardly_tested(each: &InVain, open: Span) -> String {
    let [tried, all] = [each.tried_ns, open.1 - open.0].map(seconds);
    let granted = match each.key.granted {
        0 => "never".to_owned(),
        count => crate::prose::times(count as u64),
    };
    let (lock, failed) = (lock(each.name), each.key.failed.len());
    format!(
        "for {tried} of {all} no process held {lock}, and {failed} attempts to acquire it failed: it was granted {granted}, so hardly \
         anything was tested"
    )
}

#[cfg(test)]
mod tests;
