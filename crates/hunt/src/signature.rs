//! What tells one finding from another: which faults, on which roles and in which phase, came before it.

use crate::violation::Violation;
use fencepost_checker::run_index::{Fault, Hold};
use fencepost_checker::{Finding, RunIndex, RunVerdict};
use fencepost_history::Event;
use fencepost_report::findings::{Cause, Signature};

/// The signature of the first violation of this kind in a run, with the finding itself; none where the run does not show
/// it.
pub fn signature(
    history: &[Event],
    verdict: &RunVerdict,
    violation: &Violation,
) -> Option<(Signature, Finding)> {
    let run = RunIndex::new(history).ok()?;
    let of_class = |finding: &&Finding| finding.class == violation.class;
    let findings = &verdict.of_checker(&violation.checker)?.findings;
    let finding = findings.iter().filter(of_class).min_by_key(|finding| finding.time)?;
    let mut causes: Vec<Cause> =
        behind(&run, finding).into_iter().flat_map(|fault| causes(&run, fault, finding)).collect();
    causes.sort_unstable();
    causes.dedup();
    let Violation { checker, class } = violation.clone();
    Some((Signature { checker, class, causes }, finding.clone()))
}

/// The faults behind a finding: those that were in force while it came about, from the acquire of the first hold that it is
/// about; where none was, the last before it.
fn behind<'r, 'a>(run: &'r RunIndex<'a>, finding: &Finding) -> Vec<&'r Fault<'a>> {
    let began = began_ns(run, finding);
    let effective = || run.faults.iter().filter(|fault| fault.effective && fault.inject_ns <= finding.time);
    let in_force = |fault: &&Fault| fault.healed_ns.is_none_or(|healed| healed >= began);
    let behind: Vec<&Fault> = effective().filter(in_force).collect();
    if behind.is_empty() { effective().next_back().into_iter().collect() } else { behind }
}

/// When the first of the events that prove a finding began: an acquire at its invocation.
fn began_ns(run: &RunIndex, finding: &Finding) -> u64 {
    let times = finding.events.iter().filter_map(|&index| {
        let acquired = run.holds.iter().find(|hold| hold.from == index);
        acquired.map(|hold| hold.invoke_ns).or_else(|| Some(run.event(index)?.time))
    });
    times.min().unwrap_or(0)
}

/// The role of each of the fault's targets, and the phase of the finding's key, as the fault was injected.
fn causes(run: &RunIndex, fault: &Fault, finding: &Finding) -> Vec<Cause> {
    let of_key = |hold: &&Hold| finding.key.is_empty() || hold.key == finding.key;
    let at = fault.injected_ns.unwrap_or(fault.inject_ns);
    let holds = || run.holds.iter().filter(of_key);
    let holding = holds().find(|hold| hold.from_ns <= at && at <= hold.end_ns);
    let acquiring = holds().find(|hold| hold.invoke_ns <= fault.inject_ns && at <= hold.from_ns);
    let (phase, hold) = match (holding, acquiring) {
        (Some(hold), _) => ("held", Some(hold)),
        (None, Some(hold)) => ("acquire-in-flight", Some(hold)),
        (None, None) => ("free", None),
    };
    let role = |target: &&str| {
        let granting = hold.is_some_and(|hold| hold.granted_by.contains(target));
        match () {
            () if target.starts_with("storage") => "storage",
            () if !run.servers.contains(target) => "client",
            () if granting || run.servers.len() == 1 => "granting",
            () => "server",
        }
    };
    let mut roles: Vec<&str> = fault.targets.iter().map(role).collect();
    // Of several servers those matter that granted.
    if roles.contains(&"granting") {
        roles.retain(|role| *role != "server");
    }
    let cause =
        |role: &str| Cause { fault: fault.name.to_owned(), role: role.to_owned(), phase: phase.to_owned() };
    roles.into_iter().map(cause).collect()
}
