use crate::prose::{lock, seconds};
use crate::run_index::{Hold, HoldEnd, Operation, RunIndex};
use crate::slowness::are_by_slowness;
use crate::spans::Span;
use crate::verdict::Finding;
use crate::wants::{View, length_of, wants};
use fencepost_history::{ErrorCode, Kind, OperationError, RunPhase, f};

/// Below this time a lock does not come late: a machine may have other things to do for so long.
pub(super) const LATE_MIN_NS: u64 = 5_000_000_000;

pub(super) fn late(run: &RunIndex, stuck: &[&str]) -> Vec<Finding> {
    let Some(settled) = run.phase(RunPhase::Liveness).or(run.phase(RunPhase::Closing)) else {
        return Vec::new();
    };
    let free_ns = settled.from_ns.saturating_add(run.longest_ttl_ns());
    let bound_ns = LATE_MIN_NS.max(run.longest_ttl_ns() + 1_000_000_000);
    let window: Span = (free_ns, run.end_ns.max(free_ns));
    let keys = wants(run, (0, window.1), View::Benefit);
    let others = keys.iter().filter(|(name, _)| !stuck.contains(name));
    let late = others.filter_map(|(name, key)| {
        let idle = key.idle(window).into_iter().max_by_key(|span| run.stalls.rest_of(*span))?;
        let failed = key.failed_within(idle);
        let is_proven = run.stalls.rest_of(idle) > bound_ns && !are_by_slowness(&failed);
        is_proven.then(|| late_finding(run, name, idle, &failed))
    });
    late.collect()
}

fn late_finding(run: &RunIndex, key: &str, idle: Span, failed: &[&Operation]) -> Finding {
    let before = match run.faults.is_empty() {
        true => "at the end of the run".to_owned(),
        false => "once all faults were healed and every TTL had passed".to_owned(),
    };
    let (from_ns, to_ns) = idle;
    let sentence = format!(
        "{before}, no process held {} and processes tried to acquire it from {} on, and it was granted {} later{}",
        lock(key),
        seconds(from_ns),
        seconds(length_of(idle)),
        last_grants(run, key, from_ns),
    );
    let events = failed.iter().take(10).map(|acquire| acquire.invoke.index).collect();
    Finding::new("late", key, to_ns, events, sentence)
}

/// Whose grant of a key was the last before a moment: "; the last 3 grants went to process 7, …".
pub(super) fn last_grants(run: &RunIndex, key: &str, before_ns: u64) -> String {
    let before = || run.holds.iter().rev().filter(|hold| hold.key == key && hold.from_ns <= before_ns);
    let Some(last) = before().next() else { return String::new() };
    let same = |hold: &&Hold| run.nodes.slot_of(hold.process) == run.nodes.slot_of(last.process);
    let grants = match before().take_while(same).count() {
        1 => "the last grant".to_owned(),
        count => format!("the last {count} grants"),
    };
    let since = match (last.ends.how, released(run, last)) {
        (_, Some((_, Some(ErrorCode::ClientGone)))) => "never released it, since its client had ended",
        (HoldEnd::Released, Some((Kind::Ok, _))) => "released it",
        (HoldEnd::Released, _) => "may not have released it",
        (HoldEnd::Lost, _) => "was notified that it had lost it",
        (HoldEnd::Reacquired | HoldEnd::Open, _) => "never released it",
    };
    format!("; {grants} before went to process {}, at {}, which {since}", last.process, seconds(last.from_ns))
}

fn released(run: &RunIndex, hold: &Hold) -> Option<(Kind, Option<ErrorCode>)> {
    let mut later =
        run.operations[hold.acquire..].iter().filter(|operation| operation.process == hold.process);
    let release = later.find(|operation| operation.f() == f::RELEASE && operation.key == hold.key)?;
    release.completion.map(|end| (end.kind, end.error.as_ref().map(OperationError::code)))
}
