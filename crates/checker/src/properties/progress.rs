//! No deadlock: after all faults are healed and the longest TTL has passed, the lock can be acquired again.
//!
//! A key is stuck if processes tried in earnest after healing and none got it. An attempt counts in the closing
//! phase (which begins when every lock must be free), and in the healing phase once the longest TTL has passed
//! since it began. An attempt that never completed says nothing: the run may have been cut there. Nor does one of a client
//! that had ended.

use super::checker::{Checker, FindingClass, NotJudged};
use crate::prose::seconds;
use crate::run_index::{Fault, Hold, HoldEnd, Operation, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use fencepost_history::{ErrorCode, Kind, OperationError, f};
use std::collections::BTreeMap;

pub struct Progress;

#[derive(Default)]
struct Key<'a> {
    acquired: bool,
    failed: Vec<&'a Operation<'a>>,
}

impl Checker for Progress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn about(&self) -> &'static str {
        "no deadlock: once the faults are healed, every lock can be acquired again"
    }

    fn classes(&self) -> &'static [FindingClass] {
        &[FindingClass {
            name: "stuck",
            meaning: "All faults were healed and every TTL had passed, and still no process could acquire the lock.",
            advice: "Look for a lock without a lease, or for a service that did not recover.",
        }]
    }

    fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged> {
        let unknown = |why: String| Ok(Verdict::new(self.name(), Outcome::Unknown, why));
        let Some(heal) = run.phase("liveness").or(run.phase("heal")).or(run.phase("closing")) else {
            return unknown("the history ends before the faults were healed".to_owned());
        };
        let keys = attempts(run, heal.from, heal.from_ns);
        let is_stuck = |key: &Key| !key.acquired && !key.failed.is_empty();
        let stuck_any = keys.values().any(is_stuck);
        // Servers that cannot read what they had made durable are no fault that was not healed: they do not survive it.
        let unreadable = run.unreadable().filter(|_| stuck_any);
        let excused = |id: u64| unreadable.is_some_and(|ended| ended.after_fault == Some(id));
        let is_unhealed = |fault: &&Fault| fault.effective && fault.healed_ns.is_none() && !excused(fault.id);
        if let Some(fault) = run.faults.iter().find(is_unhealed) {
            let (name, id) = (fault.name, fault.id);
            return unknown(format!("the fault {name} (number {id}) was never healed for certain"));
        }
        let unfinished = run.unfinished_scripts.iter().find(|script| {
            keys.iter().any(|(name, key)| is_stuck(key) && may_hold(run, script.process, name))
        });
        if let Some(script) = unfinished {
            return Err(NotJudged::because(format!(
                "{} did not come to the end of its script, so it may still hold the lock",
                script.client
            )));
        }
        if let Some(ended) = run.not_back().filter(|_| stuck_any && unreadable.is_none()) {
            return unknown(format!(
                "a lock stayed stuck, but not all faults were healed: {}",
                ended.sentence()
            ));
        }
        let stuck: Vec<_> = keys.iter().filter(|(_, key)| is_stuck(key)).collect();
        // A client with a mistake in it, such as a wrong port, gets no lock either.
        let unanswered = stuck.iter().all(|(_, key)| key.failed.iter().all(|acquire| is_unanswered(acquire)));
        if !stuck.is_empty() && unreadable.is_none() && unanswered && !ever_acquired(run) {
            let error = stuck[0].1.failed.last().and_then(|acquire| acquire.completion?.error.as_deref());
            return unknown(format!(
                "no process ever acquired a lock, and no attempt was answered by it, so it is not known that one stayed stuck; the \
                 last attempt ended with: {}",
                error.unwrap_or("no reason given")
            ));
        }
        let untried: Vec<_> = keys.iter().filter(|(_, key)| !key.acquired && key.failed.is_empty()).collect();
        let (outcome, summary) = if let [(name, key), ..] = &stuck[..] {
            let (count, tries) = (stuck.len(), key.failed.len());
            let of_all = match keys.len() {
                1 => "the lock".to_owned(),
                all => format!("{count} of {all} locks"),
            };
            let why = unreadable.map_or_else(String::new, |ended| format!("; {}", ended.sentence()));
            let summary = format!(
                "{of_all} stayed stuck after healing: no process could acquire {name} in {tries} attempts{why}"
            );
            (Outcome::Violation, summary)
        } else if let [(name, _), ..] = &untried[..] {
            (Outcome::Unknown, format!("no process tried to acquire {name} once it had to be free"))
        } else if keys.is_empty() {
            (Outcome::Unknown, "no process ever tried to acquire a lock".to_owned())
        } else {
            let summary = match keys.len() {
                1 => "the lock was acquired again after healing".to_owned(),
                count => format!("each of {count} locks was acquired again after healing"),
            };
            (Outcome::Valid, summary)
        };
        let timed = run.lock.lease.runs_out();
        let before = match unreadable {
            Some(ended) => format!("{};", ended.sentence()),
            None if timed => "all faults were healed and every TTL had passed, yet".to_owned(),
            None => "all faults were healed, yet".to_owned(),
        };
        let findings = stuck.iter().map(|(name, key)| finding(name, key, &before)).collect();
        let verdict = Verdict::new(self.name(), outcome, summary);
        Ok(verdict.stat("keys", keys.len()).stat("stuck", stuck.len()).with_findings(findings))
    }
}

/// Whether an acquire ended without the word of any server: it reached none, or its client raised an error.
fn is_unanswered(acquire: &Operation) -> bool {
    acquire.completion.is_none_or(|event| {
        let code = event.error.as_ref().map(OperationError::code);
        event.kind == Kind::Info || code == Some(ErrorCode::Unreachable)
    })
}

fn ever_acquired(run: &RunIndex) -> bool {
    let is_ok = |operation: &Operation| operation.completion.is_some_and(|event| event.kind == Kind::Ok);
    run.operations.iter().any(|operation| operation.f() == f::ACQUIRE && is_ok(operation))
}

/// Whether a process whose script was cut short may hold a key: it was granted the key and gave no sign of an end, or its last
/// operation has none.
fn may_hold(run: &RunIndex, process: u64, key: &str) -> bool {
    let open = |operation: &Operation| {
        operation.process == process && operation.key == key && operation.completion.is_none()
    };
    let holds = |hold: &Hold| hold.process == process && hold.key == key && hold.end == HoldEnd::Open;
    run.holds.iter().any(holds) || run.operations.iter().any(open)
}

/// Of each key that anybody ever tried to acquire: whether and how it went after healing.
fn attempts<'a>(run: &'a RunIndex<'a>, heal: u64, heal_ns: u64) -> BTreeMap<&'a str, Key<'a>> {
    let closing = run.phase("closing").map_or(u64::MAX, |phase| phase.from);
    let acquires = || run.operations.iter().filter(|operation| operation.f() == f::ACQUIRE);
    let free_ns = heal_ns.saturating_add(run.longest_ttl_ns());
    let mut keys: BTreeMap<&str, Key> = BTreeMap::new();
    for acquire in acquires() {
        let key = keys.entry(acquire.key).or_default();
        let invoke = acquire.invoke;
        match acquire.completion {
            Some(event) if event.kind == Kind::Ok => key.acquired |= event.index > heal,
            Some(event) if event.error.as_ref().map(OperationError::code) == Some(ErrorCode::ClientGone) => {}
            Some(_) if invoke.index > closing || invoke.index > heal && invoke.time >= free_ns => {
                key.failed.push(acquire);
            }
            _ => {}
        }
    }
    keys
}

/// `before` is what had happened before the attempts.
fn finding(name: &str, key: &Key, before: &str) -> Finding {
    let (first, last) = (key.failed[0], key.failed[key.failed.len() - 1]);
    let error = last.completion.and_then(|event| event.error.as_deref()).unwrap_or("no reason given");
    Finding {
        class: "stuck".to_owned(),
        key: name.to_owned(),
        time: last.completion.map_or(last.invoke.time, |event| event.time),
        events: key.failed.iter().take(10).map(|acquire| acquire.invoke.index).collect(),
        sentence: format!(
            "{before} none of {} attempts to acquire {name} from {} on \
             succeeded; the last ended with: {error}",
            key.failed.len(),
            seconds(first.invoke.time),
        ),
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::{maybe_verdict, verdict};

    const HEALED: &str = "
        0    1 invoke acquire a {ttl_ms:2000}
        1    1 ok     acquire a
        5000 nemesis info phase - \"heal\"
        5001 2 invoke acquire a {ttl_ms:2000}
        6001 2 fail   acquire a null taken
        8000 nemesis info phase - \"closing\"
        8001 3 invoke acquire a {ttl_ms:2000}
        9001 3 ok     acquire a";

    #[test]
    fn accepts_a_lock_that_comes_free() {
        assert_eq!(verdict(&Progress, HEALED).outcome, Outcome::Valid);
    }

    #[test]
    fn rejects_a_lock_that_stays_stuck() {
        let stuck = verdict(&Progress, &HEALED.replace("3 ok     acquire a", "3 fail acquire a null taken"));
        assert_eq!(stuck.outcome, Outcome::Violation);
        // The attempt right after healing does not count: the TTL of the first holder may still have run.
        assert_eq!(stuck.findings[0].events, [6]);
    }

    #[test]
    fn does_not_know_where_no_attempt_was_ever_answered() {
        let later = HEALED
            .replace("2 fail   acquire a null taken", "2 fail   acquire a null unreachable")
            .replace("3 ok     acquire a", "3 fail   acquire a null unreachable");
        let never =
            verdict(&Progress, &later.replace("1 ok     acquire a", "1 fail   acquire a null unreachable"));
        assert_eq!(never.outcome, Outcome::Unknown, "{}", never.summary);
        assert!(never.summary.ends_with("the last attempt ended with: unreachable"), "{}", never.summary);
        // One that was answered once had a right server.
        assert_eq!(verdict(&Progress, &later).outcome, Outcome::Violation);
    }

    #[test]
    fn does_not_know_without_healing_or_without_an_attempt() {
        let before = HEALED.split("5000").next().unwrap();
        assert_eq!(verdict(&Progress, before).outcome, Outcome::Unknown);
        let untried = HEALED.split("8001").next().unwrap();
        assert_eq!(verdict(&Progress, untried).outcome, Outcome::Unknown);
        let unhealed = format!(
            "0 nemesis invoke kill - {{id:1,stage:\"inject\",targets:[\"n1\"]}}
             1 nemesis ok kill - {{id:1,stage:\"inject\",effective:true}}{HEALED}"
        );
        assert!(verdict(&Progress, &unhealed).summary.contains("never healed"));
    }

    #[test]
    fn a_client_in_the_middle_of_its_script_may_still_hold_the_lock() {
        let cut = |process: u64| {
            let event = format!(
                "7999 nemesis info scripts-cut-short - [{{client:\"c1\",process:{process}}}]\n8000 nem"
            );
            HEALED.replace("8000 nem", &event)
        };
        let stuck = |process| cut(process).replace("3 ok     acquire a", "3 fail acquire a null taken");
        assert_eq!(verdict(&Progress, &cut(1)).outcome, Outcome::Valid);
        assert!(maybe_verdict(&Progress, &stuck(1)).is_none());
        // Process 2 was never granted the lock: it stands before it, as all others do.
        assert_eq!(verdict(&Progress, &stuck(2)).outcome, Outcome::Violation);
    }

    #[test]
    fn a_client_that_has_ended_tries_nothing() {
        let dead = |kind: &str| {
            HEALED.replace("3 ok     acquire a", &format!("3 {kind} acquire a null client-gone"))
        };
        for kind in ["fail", "info"] {
            let judged = verdict(&Progress, &dead(kind));
            assert_eq!(judged.outcome, Outcome::Unknown);
            assert_eq!(judged.summary, "no process tried to acquire a once it had to be free");
        }
        let tried = "\n9002 4 invoke acquire a {ttl_ms:2000}\n9900 4 fail acquire a null taken";
        assert_eq!(verdict(&Progress, &(dead("fail") + tried)).outcome, Outcome::Violation);
    }

    #[test]
    fn no_ttl_is_named_where_there_is_none() {
        let stuck = |lease: &str| {
            let lock = format!("0 nemesis info lock - {{name:\"x\",lease:\"{lease}\"}}");
            let text =
                lock + &HEALED.replace("3 ok     acquire a", "3 fail acquire a null refused-by-library");
            verdict(&Progress, &text).findings[0].sentence.clone()
        };
        assert_eq!(
            stuck("none"),
            "all faults were healed, yet none of 2 attempts to acquire a from 5.001 s on succeeded; the last ended with: \
             refused-by-library"
        );
        assert!(
            stuck("ttl")
                .starts_with("all faults were healed and every TTL had passed, yet none of 1 attempts")
        );
    }

    #[test]
    fn a_server_that_did_not_come_back_is_no_fault_of_the_lock() {
        let stuck = HEALED.replace("3 ok     acquire a", "3 fail acquire a null taken");
        let ended = |of: &str| {
            format!("{stuck}\n9002 nemesis info server-ended - {{node:\"n1\",{of}log:[\"broken\"]}}")
        };
        let unknown = verdict(&Progress, &ended("after_fault:1,"));
        assert_eq!(unknown.outcome, Outcome::Unknown);
        assert!(unknown.summary.contains("its log says: broken"), "{}", unknown.summary);
        // Nor is one without a fault that ended it, or one that cannot read what it had written, excused.
        let unreadable = verdict(&Progress, &ended("after_fault:1,unreadable:\"damaged\","));
        assert_eq!(unreadable.outcome, Outcome::Violation);
        let sentence = &unreadable.findings[0].sentence;
        assert!(
            sentence.starts_with(
                "n1 did not serve again after the fault was healed; its log says: damaged; none of"
            ),
            "{sentence}"
        );
        assert_eq!(verdict(&Progress, &ended("")).outcome, Outcome::Violation);
        let valid =
            format!("{HEALED}\n9002 nemesis info server-ended - {{node:\"n1\",after_fault:1,log:[]}}");
        assert_eq!(verdict(&Progress, &valid).outcome, Outcome::Valid);
    }
}
