//! Graceful end: a client that announces it gives its locks back when it is asked to end (SIGTERM).
//!
//! - *Violation*, `kept`: a client ended by itself in answer to SIGTERM, in peace, while a process of it
//!   held a lock, and another process asked for that lock for longer than [`BOUND_NS`] and did not get it.
//! - *Not judged*: the client does not announce it, or none that held a lock was asked to end in peace.

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::prose::{lock, seconds};
use crate::run_index::{Fault, Hold, HoldEnd, RunIndex};
use crate::verdict::{Finding, Verdict};
use crate::whose::Harm;
use fencepost_history::Kind;

figures! {
    /// Locks that clients held which were asked to end.
    GracefulEndFigures of "graceful-end" {
        held: u64,
        kept: u64,
    }
}

const KEPT: &str = "kept";

const FREES: &str = "frees-on-terminate";

/// A lock that was given back is granted sooner than this to a process that asks for it.
const BOUND_NS: u64 = 1_000_000_000;

pub(super) const GRACEFUL_END: Checker = Checker {
    classes: &[FindingClass {
        name: KEPT,
        meaning: "A client that announces that it frees its locks when it is asked to end left a lock taken.",
        advice: "Release what is held in the handler of SIGTERM, and wait for the answer before the program ends.",
    }],
    claim: Some("progress"),
    harm: Harm::Stuck,
    ..Checker::of::<GracefulEndFigures>(
        "graceful end: a client that is asked to end gives its locks back",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    if !run.lock.can(FREES) {
        return Err(NotJudged::OTHER_WORKLOAD);
    }
    let (mut held, mut findings) = (0, Vec::new());
    for (fault, client, ended_ns) in run.faults.iter().flat_map(|fault| asked_to_end(fault)) {
        // A release that began later was sent to no client.
        let is_held = |hold: &Hold| match hold.ends.how {
            HoldEnd::Open => true,
            HoldEnd::Released => hold.ends.let_go_ns >= ended_ns,
            HoldEnd::Lost | HoldEnd::Reacquired => false,
        };
        let of_client = |hold: &&Hold| {
            let is_of_client = run.nodes.client_of(hold.process) == Some(client);
            is_of_client && hold.from_ns < fault.inject_ns && is_held(hold)
        };
        for hold in run.holds.iter().filter(of_client) {
            if let Some(refused_ns) = refused_for_ns(run, hold, ended_ns, fault) {
                held += 1;
                if refused_ns.1 > BOUND_NS {
                    findings.push(kept(hold, client, ended_ns, refused_ns));
                }
            }
        }
    }
    not_judged_if!(held == 0, "no client that held a lock was asked to end without other faults");
    let figures = GracefulEndFigures { held, kept: findings.len() as u64 };
    let valid = format!("each of {held} locks was free once its client had ended");
    Ok(checker.judged_by_first(valid, &figures, findings))
}

/// The clients that ended by themselves in answer to this fault, and when they had.
fn asked_to_end<'r, 'a>(
    fault: &'r Fault<'a>,
) -> impl Iterator<Item = (&'r Fault<'a>, &'a str, u64)> + use<'r, 'a> {
    let ended = |target: &&str| {
        let seen = &fault.observed[*target];
        seen["gone"] == true && seen["killed"] == false && seen["ended_before"].is_null()
    };
    let ended_ns = fault.injected_ns.filter(|_| fault.name == "terminate");
    ended_ns.into_iter().flat_map(move |ended_ns| {
        fault.targets.iter().copied().filter(ended).map(move |client| (fault, client, ended_ns))
    })
}

/// The longest acquire of another process that asked for the lock of this hold once its client had ended and
/// before any got it: its event, and its time. None: no process asked, or it is not known who had the lock.
fn refused_for_ns(run: &RunIndex, hold: &Hold, ended_ns: u64, own: &Fault) -> Option<(u64, u64)> {
    let later = run.holds.iter().filter(|other| other.key == hold.key && other.from_ns > hold.from_ns);
    let granted_ns = later.map(|other| other.from_ns).min().unwrap_or(run.end_ns);
    let disturbed =
        |fault: &Fault| fault.id != own.id && fault.in_force(hold.from_ns, granted_ns.max(ended_ns));
    // One of unknown outcome may have the lock, another of the same client, too.
    let in_doubt = run.acquires().any(|acquire| {
        let is_unknown = acquire.completion.is_none_or(|end| end.kind == Kind::Info);
        is_unknown && acquire.key == hold.key && acquire.invoke.time < granted_ns
    });
    if in_doubt || run.faults.iter().any(disturbed) {
        return None;
    }
    if granted_ns <= ended_ns {
        return Some((hold.from, 0)); // it had given the lock back before it had ended
    }
    let client = run.nodes.client_of(hold.process);
    let of_others = run
        .acquires()
        .filter(|acquire| acquire.key == hold.key && run.nodes.client_of(acquire.process) != client);
    let asked = of_others.filter_map(|acquire| {
        let until_ns = acquire.completion?.time.min(granted_ns);
        let asked_ns = acquire.invoke.time.max(ended_ns);
        (asked_ns < until_ns).then(|| (acquire.invoke.index, run.stalls.rest_of((asked_ns, until_ns))))
    });
    asked.max_by_key(|(_, refused_ns)| *refused_ns)
}

fn kept(hold: &Hold, client: &str, ended_ns: u64, (acquire, refused_ns): (u64, u64)) -> Finding {
    let sentence = format!(
        "{client} was asked to end (SIGTERM) and had ended at {}; process {} of it, which had acquired {} at {}, left it taken: \
         another asked for it for {} and did not get it",
        seconds(ended_ns),
        hold.process,
        lock(hold.key),
        seconds(hold.from_ns),
        seconds(refused_ns),
    );
    Finding::new(KEPT, hold.key, ended_ns.saturating_add(refused_ns), vec![hold.from, acquire], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    /// The client of process 1 is asked to end at 1 s; process 2 then asks for its lock, and gets it at
    /// `granted`.
    fn asked(granted: u64) -> String {
        format!(
            "0    nemesis info lock - {{name:\"x\",lease:\"session\",can:[\"frees-on-terminate\"]}}
             0    nemesis info nodes - {{slots:[\"c0\",\"c1\",\"c2\"]}}
             1    1 invoke acquire a {{ttl_ms:9000}}
             2    1 ok     acquire a
             1000 nemesis invoke terminate - {{id:1,stage:\"inject\",targets:[\"c1\"]}}
             1100 nemesis ok terminate - {{id:1,stage:\"inject\",targets:[\"c1\"],effective:true,observed:{{\"c1\":{{gone:true,killed:false}}}}}}
             1101 2 invoke acquire a {{ttl_ms:9000,timeout_ms:8000}}
             {granted} 2 ok acquire a"
        )
    }

    #[test]
    fn rejects_a_lock_that_stays_taken() {
        let judged = verdict(&GRACEFUL_END, &asked(4000));
        assert_eq!(judged.outcome, Outcome::Violation);
        assert_eq!(
            judged.findings[0].sentence,
            "c1 was asked to end (SIGTERM) and had ended at 1.100 s; process 1 of it, which had acquired a at 0.002 s, left it taken: \
             another asked for it for 2.899 s and did not get it"
        );
        let refused = asked(4000).replace("2 ok acquire a", "2 fail acquire a null taken");
        assert_eq!(verdict(&GRACEFUL_END, &refused).outcome, Outcome::Violation);
    }

    #[test]
    fn accepts_a_lock_that_is_free() {
        assert_eq!(verdict(&GRACEFUL_END, &asked(1150)).outcome, Outcome::Valid);
        let at_once = asked(1150).replace("1101 2 invoke", "900 2 invoke").replace("1150 2 ok", "1050 2 ok");
        let mut lines: Vec<&str> = at_once.lines().collect();
        lines.sort_by_key(|line| line.split_whitespace().next().and_then(|time| time.parse::<u64>().ok()));
        assert_eq!(verdict(&GRACEFUL_END, &lines.join("\n")).outcome, Outcome::Valid);
    }

    #[test]
    fn does_not_judge_a_client_that_was_killed_or_another_fault() {
        let killed = asked(4000).replace("killed:false", "killed:true");
        let silent = asked(4000).replace("can:[\"frees-on-terminate\"]", "can:[]");
        let other = asked(4000).replace(
            "1101 2 inv",
            "1100 nemesis invoke pause - {id:2,stage:\"inject\",targets:[\"n1\"]}
             1100 nemesis ok pause - {id:2,stage:\"inject\",targets:[\"n1\"],effective:true}\n1101 2 inv",
        );
        let unsure = asked(4000).replace(
            "1101 2 inv",
            "1100 0 invoke acquire a {ttl_ms:9000}\n1100 0 info acquire a null timeout\n1101 2 inv",
        );
        for text in [killed, silent, other, unsure] {
            assert!(maybe_verdict(&GRACEFUL_END, &text).is_none(), "{text}");
        }
    }
}
