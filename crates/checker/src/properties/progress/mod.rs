//! No deadlock: after all faults are healed and the longest TTL has passed, the lock can be acquired again. A
//! key is stuck if processes tried in earnest after healing and none got it. An attempt counts in the closing
//! phase (in which all processes have ended), and in the healing phase once the longest TTL has passed since
//! it began. An attempt that never completed says nothing: the run may have been cut there. Nor does one of a
//! client that had ended. The closing phase decides where the lock answered: a key that was refused there for
//! longer than any TTL, and never granted, is stuck, though it may have been acquired since healing: the
//! process that got it then has ended, and left it taken.
//!
//! A key that was granted in the end came *late* if, once the service was ready and the longest TTL had
//! passed, it was idle for longer than the bound ([`wants`](crate::wants), with the benefit of every doubt).
//! The bound is the longest TTL and a second, and at least [`LATE_MIN_NS`](late::LATE_MIN_NS).

mod late;

use super::checker::{Blame, Checker, FindingClass, NotJudged};
use crate::figures::figures;
use crate::prose::seconds;
use crate::run_index::{Fault, Hold, HoldEnd, Operation, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
use fencepost_history::{
    ErrorCode, ErrorKind, FaultEffect, Kind, Lease, OperationError, RunPhase, ServerEnded, UnfinishedScript,
    f,
};
use late::{last_grants, late};
use std::collections::BTreeMap;

figures! {
    /// How many locks could be acquired at the end.
    ProgressFigures of "progress" {
        keys: u64,
        stuck: u64,
    }
}

#[derive(Default)]
struct KeyAttempts<'a> {
    acquired: bool,
    failed: Vec<&'a Operation<'a>>,
    final_attempt_granted: bool,
    final_failures: Vec<&'a Operation<'a>>,
}

impl<'a> KeyAttempts<'a> {
    fn stuck(&self, ttl_ns: u64) -> Option<&[&'a Operation<'a>]> {
        let left_taken = || refused_for_longer(&self.final_failures, ttl_ns);
        match self.acquired {
            false => (!self.failed.is_empty()).then_some(&self.failed[..]),
            true => (!self.final_attempt_granted && left_taken()).then_some(&self.final_failures[..]),
        }
    }
}

/// Whether the lock was refused for longer than a TTL, from the first attempt to one that it answered.
fn refused_for_longer(failed: &[&Operation], ttl_ns: u64) -> bool {
    let first = failed.first().map_or(u64::MAX, |attempt| attempt.invoke.time);
    let answered = failed.iter().filter(|attempt| !is_unanswered(attempt));
    answered.filter_map(|attempt| attempt.completion).any(|event| event.time > first.saturating_add(ttl_ns))
}

pub(super) const PROGRESS: Checker = Checker {
    classes: &[
        FindingClass {
            name: "stuck",
            meaning: "All faults were healed and every TTL had passed, and still no process could acquire the lock.",
            advice: "Look for a lock without a lease, or for a service that did not recover.",
        },
        FindingClass {
            name: "late",
            meaning: "All faults were healed and every TTL had passed, and the lock came free only much later.",
            advice: "Compare how long the lock is kept in the servers with the TTL that was asked for.",
        },
    ],
    harm: Harm::Stuck,
    blame: Blame::ByAnswers,
    needs_a_whole_run: true,
    ..Checker::of::<ProgressFigures>(
        "no deadlock: once the faults are healed, every lock can be acquired again",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let unknown = |why: String| Ok(Verdict::new(checker.name, Outcome::Unknown, why));
    let Some(heal) =
        run.phase(RunPhase::Liveness).or(run.phase(RunPhase::Heal)).or(run.phase(RunPhase::Closing))
    else {
        return unknown("the history ends before the faults were healed".to_owned());
    };
    let keys = attempts(run, heal.from, heal.from_ns);
    let ttl_ns = run.longest_ttl_ns();
    let stuck: Vec<StuckKey> =
        keys.iter().filter_map(|(name, key)| Some(StuckKey { name, attempts: key.stuck(ttl_ns)? })).collect();
    let mut suspects: Vec<&str> = stuck.iter().map(|stuck| stuck.name).collect();
    // Where a server stayed away, a lock may come late for that.
    let late = if run.not_back().is_none() { late(run, &suspects) } else { Vec::new() };
    suspects.extend(late.iter().map(|finding| finding.key.as_str()));
    // Servers that cannot read what they had made durable are no unhealed fault: they did not survive it.
    let unreadable = run.unreadable().filter(|_| !stuck.is_empty());
    if let Some(fault) = unhealed(run, run.unreadable()) {
        let (name, id) = (fault.name, fault.id);
        return unknown(format!("the fault {name} (number {id}) was never healed for certain"));
    }
    let may_hold_one =
        |script: &&UnfinishedScript| suspects.iter().any(|key| may_hold(run, script.process, key));
    if let Some(script) = run.unfinished_scripts.iter().find(may_hold_one) {
        return Err(NotJudged::because(format!(
            "{} did not come to the end of its script, so it may still hold the lock",
            script.client
        )));
    }
    let (kept, stuck): (Vec<StuckKey>, Vec<StuckKey>) =
        stuck.into_iter().partition(|key| given_up(run, key).is_some());
    if stuck.is_empty()
        && late.is_empty()
        && let Some((key, hold)) = kept.iter().find_map(|key| Some((key, given_up(run, key)?)))
    {
        return unknown(format!(
            "no process could acquire {}, but Fencepost gave up the section of process {}, which had acquired it at {}, so it may \
             still be held; where the library waits for the lock by itself, repeat attempts that do not block (env.poll of the \
             kits), or take a longer --ttl",
            key.name,
            hold.process,
            seconds(hold.from_ns)
        ));
    }
    if let Some(why) = doubt(run, &stuck).filter(|_| unreadable.is_none()) {
        return unknown(why);
    }
    let stuck: Vec<StuckKey> =
        stuck.into_iter().filter(|key| unreadable.is_some() || !key.is_doubtful()).collect();
    let (outcome, summary) = match (summed_up(&keys, &stuck, unreadable), late.first()) {
        ((Outcome::Valid | Outcome::Unknown, _), Some(finding)) => {
            (Outcome::Violation, finding.sentence.clone())
        }
        (summed_up, _) => summed_up,
    };
    let timed = run.lock.lease.runs_out();
    let before = match unreadable {
        Some(ended) => format!("{};", ended.sentence()),
        None if timed => "all faults were healed and every TTL had passed, yet".to_owned(),
        None => "all faults were healed, yet".to_owned(),
    };
    let findings = stuck.iter().map(|key| finding(run, key, &before)).chain(late);
    let findings = findings.map(|mut finding| {
        finding.sentence += &since_the_last_fault(run, &finding);
        finding
    });
    let verdict = Verdict::new(checker.name, outcome, summary);
    Ok(verdict
        .with_figures(&ProgressFigures { keys: keys.len() as u64, stuck: stuck.len() as u64 })
        .with_findings(findings.collect()))
}

/// A fault that may have been in force at the end, but for one after which a server could not read its data.
fn unhealed<'r, 'a>(run: &'r RunIndex<'a>, unreadable: Option<&ServerEnded>) -> Option<&'r Fault<'a>> {
    let excused = |id: u64| unreadable.is_some_and(|ended| ended.after_fault == Some(id));
    // One that failed halfway, or whose healing failed, may be in force as well.
    let was_there = |fault: &Fault| fault.effective || fault.error.is_some() || fault.heal_ns.is_some();
    run.faults.iter().find(|fault| was_there(fault) && fault.healed_ns.is_none() && !excused(fault.id))
}

fn doubt(run: &RunIndex, stuck: &[StuckKey]) -> Option<String> {
    let first = stuck.first()?;
    if let Some(ended) = run.not_back() {
        return Some(format!("a lock stayed stuck, but not all faults were healed: {}", ended.sentence()));
    }
    // A client with a mistake in it, such as a wrong port, gets no lock either.
    let unanswered = stuck.iter().all(|key| key.attempts.iter().all(|acquire| is_silence(acquire)));
    if unanswered && run.acquires().all(|acquire| acquire.ok().is_none()) {
        return Some(format!(
            "no process ever acquired a lock, and no attempt was answered by it, so it is not known that one stayed stuck; the \
             last attempt ended with: {}",
            first.last_error()
        ));
    }
    // An attempt of unknown outcome may have been granted.
    stuck.iter().all(StuckKey::is_doubtful).then(|| {
        format!(
            "it is not known how any of the attempts to acquire {} ended once it had to be free; the last ended with: {}",
            first.name,
            first.last_error()
        )
    })
}

fn summed_up(
    keys: &BTreeMap<&str, KeyAttempts>,
    stuck: &[StuckKey],
    unreadable: Option<&ServerEnded>,
) -> (Outcome, String) {
    let untried = keys.iter().find(|(_, key)| !key.acquired && key.failed.is_empty());
    if let [StuckKey { name, attempts }, ..] = stuck {
        let (count, tries) = (stuck.len(), attempts.len());
        let of_all = match keys.len() {
            1 => "the lock".to_owned(),
            all => format!("{count} of {all} locks"),
        };
        let why = unreadable.map_or_else(String::new, |ended| format!("; {}", ended.sentence()));
        let summary = format!(
            "{of_all} stayed stuck after healing: no process could acquire {name} in {tries} attempts{why}"
        );
        (Outcome::Violation, summary)
    } else if let Some((name, _)) = untried {
        (Outcome::Unknown, format!("no process tried to acquire {name} once it had to be free"))
    } else if keys.is_empty() {
        (Outcome::Unknown, "no process ever tried to acquire a lock".to_owned())
    } else {
        let summary = match keys.len() {
            1 => "the lock was acquired again after healing".to_owned(),
            count => format!("each of {count} locks was acquired again after healing"),
        };
        (Outcome::Valid, summary)
    }
}

struct StuckKey<'r, 'a> {
    name: &'a str,
    attempts: &'r [&'a Operation<'a>],
}

impl StuckKey<'_, '_> {
    fn last_error(&self) -> &str {
        let last = self.attempts.last().and_then(|acquire| acquire.completion?.error.as_deref());
        last.unwrap_or("no reason given")
    }

    fn is_doubtful(&self) -> bool {
        self.attempts.iter().all(|acquire| acquire.completion.is_none_or(|event| event.kind == Kind::Info))
    }
}

/// Whether an acquire ended without the word of any server: it reached none, or its client raised an error.
fn is_unanswered(acquire: &Operation) -> bool {
    acquire.completion.is_none_or(|event| {
        let code = event.error.as_ref().map(OperationError::code);
        event.kind == Kind::Info || code == Some(ErrorCode::Unreachable)
    })
}

/// Whether a process whose script was cut short may hold a key: its grant, or its last operation, has no end.
fn may_hold(run: &RunIndex, process: u64, key: &str) -> bool {
    let open = |operation: &Operation| {
        operation.process == process && operation.key == key && operation.completion.is_none()
    };
    let holds = |hold: &Hold| hold.process == process && hold.key == key && hold.ends.how == HoldEnd::Open;
    run.holds.iter().any(holds) || run.operations.iter().any(open)
}

/// The hold that may keep a stuck key taken because Fencepost gave up the section under it: it abandoned the
/// section, or the client never answered a request to the storage, although no fault had made it late.
fn given_up<'r, 'a>(run: &'r RunIndex<'a>, key: &StuckKey) -> Option<&'r Hold<'a>> {
    let last_ns = key.attempts.last()?.completion?.time;
    let is_kept = |hold: &&Hold| {
        hold.key == key.name && hold.ends.how == HoldEnd::Open && hold.end_latest_ns() > last_ns
    };
    let is_unanswered = |hold: &Hold| {
        let mut of_process = run.operations[hold.acquire..].iter().rev();
        let last = of_process.find(|operation| operation.process == hold.process);
        last.filter(|last| [f::READ, f::WRITE].contains(&last.f())).is_some_and(|last| {
            let code = last.completion.and_then(|end| end.error.as_ref()).map(OperationError::code);
            let until_ns = last.completion.map_or(run.end_ns, |end| end.time);
            last.completion.is_none_or(|end| end.kind == Kind::Info)
                && code != Some(ErrorCode::ClientGone)
                && !run.setting().made_late(hold.process, last.invoke.time, until_ns)
        })
    };
    run.holds
        .iter()
        .rev()
        .filter(is_kept)
        .find(|hold| hold.ends.abandoned_ns.is_some() || is_unanswered(hold))
}

/// Whether the servers explain that no process got a lock: unreadable data, no answer since their last fault,
/// or what that did lasts (a lease dated by a moved clock, a connection's end unnoticed).
pub(crate) fn stuck_by_the_service(run: &RunIndex, finding: &Finding) -> bool {
    let lasts = |fault: &&Fault| {
        let is_of_packets = fault.can(FaultEffect::Parts) || fault.can(FaultEffect::Delays);
        fault.can(FaultEffect::MovesClocks) || is_of_packets && run.lock.lease == Lease::Connection
    };
    let before = run.setting().faults_on_servers(finding.time);
    let is_silent = |over_ns| !has_answered(run, over_ns, finding);
    run.unreadable().is_some()
        || before.iter().any(lasts)
        || hit_until_ns(run, finding).is_some_and(is_silent)
}

/// When the last fault on a server was over that began before a finding; none where no server was hit.
fn hit_until_ns(run: &RunIndex, finding: &Finding) -> Option<u64> {
    let before = run.setting().faults_on_servers(finding.time);
    let over_ns = before.iter().map(|fault| fault.healed_ns.unwrap_or(u64::MAX));
    let ended_ns = run.servers_ended.iter().map(|(at_ns, _)| *at_ns).filter(|at_ns| *at_ns <= finding.time);
    over_ns.chain(ended_ns).max()
}

/// What a finding says of a fault that was over by then; nothing where the service may be why.
fn since_the_last_fault(run: &RunIndex, finding: &Finding) -> String {
    match hit_until_ns(run, finding).filter(|_| !stuck_by_the_service(run, finding)) {
        Some(over_ns) => {
            format!(
                "; the last fault on a server was over at {}, and the lock has answered since",
                seconds(over_ns)
            )
        }
        None => String::new(),
    }
}

fn has_answered(run: &RunIndex, from_ns: u64, finding: &Finding) -> bool {
    let since = run.operations.partition_point(|operation| operation.invoke.time < from_ns);
    let of_lock = run.operations[since..].iter().filter(|operation| {
        [f::ACQUIRE, f::RELEASE].contains(&operation.f())
            && operation.completion.is_some_and(|end| end.time <= finding.time)
    });
    of_lock.into_iter().any(|operation| !is_silence(operation))
}

/// Whether an operation ended without the word of any server, or with a client's time-out.
fn is_silence(operation: &Operation) -> bool {
    let code = operation.completion.and_then(|event| event.error.as_ref()).map(OperationError::code);
    is_unanswered(operation) || code.is_some_and(|code| code.kind() == ErrorKind::Unanswered)
}

/// Of each key that anybody ever tried to acquire: whether and how it went after healing.
fn attempts<'a>(run: &'a RunIndex<'a>, heal: u64, heal_ns: u64) -> BTreeMap<&'a str, KeyAttempts<'a>> {
    let closing = run.phase(RunPhase::Closing).map_or(u64::MAX, |phase| phase.from);
    let free_ns = heal_ns.saturating_add(run.longest_ttl_ns());
    let mut keys: BTreeMap<&str, KeyAttempts> = BTreeMap::new();
    for acquire in run.acquires() {
        let key = keys.entry(acquire.key).or_default();
        let invoke = acquire.invoke;
        let is_final = invoke.index > closing;
        match acquire.completion {
            Some(event) if event.kind == Kind::Ok => {
                key.acquired |= event.index > heal;
                key.final_attempt_granted |= is_final;
            }
            Some(event) if event.error.as_ref().map(OperationError::code) == Some(ErrorCode::ClientGone) => {}
            Some(_) if is_final || invoke.index > heal && invoke.time >= free_ns => {
                key.failed.push(acquire);
                key.final_failures.extend(is_final.then_some(acquire));
            }
            _ => {}
        }
    }
    keys
}

/// `before` is what had happened before the attempts.
fn finding(run: &RunIndex, key: &StuckKey, before: &str) -> Finding {
    let StuckKey { name, attempts } = key;
    let (first, last) = (attempts[0], attempts[attempts.len() - 1]);
    let sentence = format!(
        "{before} none of {} attempts to acquire {name} from {} on \
         succeeded; the last ended with: {}{}{}",
        attempts.len(),
        seconds(first.invoke.time),
        key.last_error(),
        last_grants(run, name, first.invoke.time),
        last_cancelled(run, name, first.invoke.index),
    );
    let time = last.completion.map_or(last.invoke.time, |event| event.time);
    let events = attempts.iter().take(10).map(|acquire| acquire.invoke.index).collect();
    Finding::new("stuck", name, time, events, sentence)
}

/// Which call on a key its caller gave up last: "; the last call that its caller gave up …".
fn last_cancelled(run: &RunIndex, key: &str, before: u64) -> String {
    let is_cancelled = |operation: &&Operation| {
        let error = operation.completion.and_then(|event| event.error.as_ref());
        operation.key == key && error.is_some_and(|error| error.code() == ErrorCode::Cancelled)
    };
    let mut earlier = run.operations.iter().rev().skip_while(|operation| operation.invoke.index > before);
    earlier.find(is_cancelled).map_or_else(String::new, |call| {
        let (process, since) = (call.process, seconds(call.invoke.time));
        format!(
            "; the last call that its caller gave up was the {} of process {process}, at {since}",
            call.f()
        )
    })
}

#[cfg(test)]
mod tests;
