//! The whole history: there is an order of the operations that fits a lock, and one that fits what the lock
//! protects.
//!
//! *The lock*, key by key, as a [`LeasedLock`]: each successful acquire is a grant; the hold is certainly in
//! force up to the last moment at which its process certainly believed in it (see [`Hold`]), and no longer
//! than its lease, counted as `exclusion` counts it. After that it may end without a sign. So nothing is
//! concluded from
//!
//! - an indeterminate acquire: whether it was granted is unknown, and such a hold might end at once;
//! - a process that crashed, or was notified that its lock is lost: it shows no belief after that;
//! - a holder that went on after its lease (*overstayed*): the lock kept its word. `exclusion` reports it;
//! - holds that share the lock, among each other, and locks that do not claim to exclude others.
//!
//! What is found here was *granted twice*, which `exclusion` finds, too: the finding says so, and adds the
//! operations that have no order.
//!
//! *The storage*, key by key, as a register that starts as 0, whatever a workload makes of it (a counter that
//! it reads and writes back, a list that it extends). A write that was rejected did not happen; one of which
//! the end is unknown may have, at any later time. Only a history that says that its storage is one register
//! a key is judged: data inside the lock service becomes visible with the release, and replicas promise less.
//! A storage that lost its memory to a fault is none either.
//!
//! The search for an order of the storage's operations has a second. Past it the run is not judged by this
//! checker, which changes nothing about its verdict.

use super::checker::{Blame, Checker, FindingClass, NotJudged};
use crate::budget::Budget;
use crate::evidence::{Evidence, explain};
use crate::figures::{Figures, figures};
use crate::judge::{Algorithm, Answer, decide};
use crate::model::History;
use crate::models::{LeasedLock, LeasedLockOp, Register, RegisterOp, RegisterRet};
use crate::operations::{Builder, Stamp};
use crate::run_index::{Hold, Operation, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
use fencepost_history::{Event, Kind, STORAGE_IS_REGISTER, f, is_storage};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

figures! {
    /// How much was put in order.
    LinearizableFigures of "linearizable" {
        holds: u64,
        storage_operations: u64,
    }
}

pub struct Linearizable;

/// Class of a finding about the storage.
const STORAGE_WITHOUT_ORDER: &str = "storage-without-order";

/// How long the search may take, over all keys.
const TIME: Duration = Duration::from_secs(1);

/// Bytes that the search may take for each key.
const MEMORY_BYTES: usize = 256 << 20;

impl Checker for Linearizable {
    fn name(&self) -> &'static str {
        LinearizableFigures::CHECKER
    }

    fn about(&self) -> &'static str {
        "linearizability: some order of the operations fits the lock, and some order fits the storage"
    }

    fn classes(&self) -> &'static [FindingClass] {
        &[
            FindingClass {
                name: "lock-without-order",
                meaning: "No order of the grants fits a lock: two holds that exclude each other were in force at once.",
                advice: "Read it together with the finding of mutual exclusion, which says how it came about.",
            },
            FindingClass {
                name: STORAGE_WITHOUT_ORDER,
                meaning: "No order of the reads and writes fits the storage: a read returned what cannot have been there.",
                advice: "Distrust the storage, or a client that reports more than it knows, before the lock.",
            },
        ]
    }

    fn claim(&self) -> Option<&'static str> {
        Some("exclusion")
    }

    fn harm(&self) -> Harm {
        Harm::GrantedTwice
    }

    fn blame(&self) -> Blame {
        Blame::ByHolders
    }

    fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged> {
        let locks = holds_by_key(run);
        let registers = if is_register(run) { registers(run) } else { BTreeMap::new() };
        if locks.is_empty() && registers.is_empty() {
            return Err(NotJudged::because("no process held a lock that excludes others"));
        }
        let count = |sizes: &mut dyn Iterator<Item = usize>| sizes.sum::<usize>();
        let holds = count(&mut locks.values().map(Vec::len));
        let operations = count(&mut registers.values().map(|(_, history)| history.len()));
        let budget = Budget::new(TIME, MEMORY_BYTES);
        let mut findings: Vec<Finding> =
            locks.par_iter().filter_map(|(key, holds)| check_lock(run, key, holds, &budget)).collect();
        let answers: Vec<_> = registers
            .par_iter()
            .map(|(key, (model, history))| check_register(key, model, history, &budget))
            .collect();
        let mut undecided = None;
        for answer in answers {
            match answer {
                Ok(finding) => findings.extend(finding),
                Err(reason) => undecided = undecided.or(Some(reason)),
            }
        }
        if let Some(reason) = undecided.filter(|_| findings.is_empty()) {
            return Err(reason);
        }
        let verdict = match findings.len() {
            0 => Verdict::new(self.name(), Outcome::Valid, order_summary(holds, operations)),
            _ => Verdict::new(self.name(), Outcome::Violation, no_order_summary(&findings)),
        };
        Ok(verdict
            .with_figures(&LinearizableFigures { holds: holds as u64, storage_operations: operations as u64 })
            .with_findings(findings))
    }
}

/// "no order fits the holds of one lock, nor what one key of the storage held".
fn no_order_summary(findings: &[Finding]) -> String {
    let some = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(one.to_owned()),
        count => Some(many.replacen("{}", &count.to_string(), 1)),
    };
    let of_storage = findings.iter().filter(|finding| finding.class == STORAGE_WITHOUT_ORDER).count();
    let locks = some(findings.len() - of_storage, "the holds of one lock", "the holds of {} locks");
    let keys = some(
        of_storage,
        "the reads and writes of one key of the storage",
        "the reads and writes of {} keys of the storage",
    );
    let broken: Vec<String> = locks.into_iter().chain(keys).collect();
    format!("no order fits {}", broken.join(", nor "))
}

fn order_summary(holds: usize, operations: usize) -> String {
    match (holds, operations) {
        (holds, 0) => format!("there is an order that fits all {holds} holds"),
        (0, operations) => format!("there is an order that fits all {operations} operations of the storage"),
        _ => format!(
            "there is an order that fits all {holds} holds, and one for {operations} reads and writes"
        ),
    }
}

/// The holds of each lock that claims to exclude others, but for those that were over before their clients
/// knew of them.
fn holds_by_key<'r, 'a>(run: &'r RunIndex<'a>) -> BTreeMap<&'a str, Vec<&'r Hold<'a>>> {
    let mut by_key: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in run.holds.iter().filter(|hold| hold.claim.excludes_any() && !hold.was_over_at_once()) {
        by_key.entry(hold.key).or_default().push(hold);
    }
    by_key
}

/// An event of a lock's history: the place in the run, twice its index, so that there is room between two;
/// what happens; the time.
type LockEvent = (u64, LockStep, u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LockStep {
    Invoked(usize),
    Granted(usize),
    Ends(usize),
}

/// Grants and ends of one lock, in order.
fn lock_history(run: &RunIndex, holds: &[&Hold]) -> History<LeasedLock> {
    let mut events: Vec<LockEvent> = Vec::with_capacity(3 * holds.len());
    for (at, hold) in holds.iter().enumerate() {
        let invoke = run.operations[hold.acquire].invoke;
        events.push((2 * invoke.index, LockStep::Invoked(at), invoke.time));
        events.push((2 * hold.from, LockStep::Granted(at), hold.from_ns));
        let (place, time_ns) = certain_end(run, hold);
        events.push((place, LockStep::Ends(at), time_ns));
    }
    events.sort_unstable();
    let mut builder = Builder::new();
    let mut open = FxHashMap::default();
    for (place, step, time_ns) in events {
        let stamp = Stamp { index: place / 2, time_ns: Some(time_ns) };
        match step {
            LockStep::Invoked(at) => {
                let grant = LeasedLockOp::Grant { hold: at as u32, claim: holds[at].claim };
                open.insert(at, builder.invoke_at(holds[at].process, grant, stamp));
            }
            LockStep::Granted(at) => {
                if let Some(handle) = open.remove(&at) {
                    builder.complete_at(handle, (), stamp);
                }
            }
            LockStep::Ends(at) => {
                builder.invoke_at(holds[at].process, LeasedLockOp::End { hold: at as u32 }, stamp);
            }
        }
    }
    builder.finish()
}

/// The last moment at which a hold was certainly in force: its process believed in it, and its lease had not
/// run out.
fn certain_end(run: &RunIndex, hold: &Hold) -> (u64, u64) {
    let believed = (2 * hold.until + 1, hold.until_ns);
    let Some(ends_ns) = lease_end_ns(run, hold) else { return believed };
    let at = run.events.partition_point(|event| event.time < ends_ns);
    // Just before the first event that is later than the lease; at the earliest right after the grant.
    match run.events.get(at) {
        Some(event) => believed.min(((2 * event.index).saturating_sub(1).max(2 * hold.from + 1), ends_ns)),
        None => believed,
    }
}

/// When the lease may first have ended. A renewal that was reported later than that may have come too late.
fn lease_end_ns(run: &RunIndex, hold: &Hold) -> Option<u64> {
    let first_ns = |at| hold.lease_at(at).map(|lease| lease.earliest.ns);
    let Some(mut end_ns) = first_ns(hold.from) else { return hold.ends.cut.map(|cut| cut.ns) };
    for &(index, _) in hold.renewals.iter().filter(|(index, _)| *index > hold.from) {
        let reported_ns = run.event(index)?.time;
        if reported_ns >= end_ns {
            break;
        }
        end_ns = first_ns(index)?;
    }
    Some(end_ns)
}

fn check_lock(run: &RunIndex, key: &str, holds: &[&Hold], budget: &Budget) -> Option<Finding> {
    let history = lock_history(run, holds);
    let Answer::Impossible(conflict) = decide(&LeasedLock, &history, Algorithm::FastPath, budget, None)
    else {
        return None;
    };
    let hold_of = |at: u32| match history.list[at as usize].op {
        LeasedLockOp::Grant { hold, .. } => Some(holds[hold as usize]),
        LeasedLockOp::End { .. } => None,
    };
    // The same events as the finding of `exclusion` about these two holds has, so that both have one story.
    let grants: Vec<&Hold> = conflict.core.iter().filter_map(|&at| hold_of(at)).collect();
    let later = hold_of(conflict.stuck)?;
    let earlier = grants.into_iter().find(|hold| hold.from != later.from)?;
    Some(Finding {
        class: "lock-without-order".to_owned(),
        key: key.to_owned(),
        time: later.from_ns,
        events: vec![earlier.from, later.from, earlier.until],
        sentence: format!("{}: {}", named("the lock", key), conflict.sentence),
        repeats: Some("exclusion".to_owned()),
        evidence: Some(Box::new(explain(&LeasedLock, &history, &conflict, budget))),
        ..Finding::default()
    })
}

fn named(what: &str, key: &str) -> String {
    if key.is_empty() { what.to_owned() } else { format!("{what} {key}") }
}

/// Whether the storage is one register a key, and kept its memory over all faults.
fn is_register(run: &RunIndex) -> bool {
    let forgot = run.faults.iter().any(|fault| {
        fault.targets.iter().any(|target| is_storage(target)) && !fault.description.keeps_memory
    });
    run.storage == Some(STORAGE_IS_REGISTER) && !forgot
}

type RegisterHistory = (Register, History<Register>);

/// What was read from and written to the storage, key by key.
fn registers<'a>(run: &RunIndex<'a>) -> BTreeMap<&'a str, RegisterHistory> {
    let mut by_key: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in run.operations.iter().filter(|operation| matches!(operation.f(), f::READ | f::WRITE)) {
        by_key.entry(operation.key).or_default().push(operation);
    }
    by_key.into_iter().map(|(key, operations)| (key, register(&operations))).collect()
}

fn register(operations: &[&Operation]) -> RegisterHistory {
    let mut model = Register::default();
    let mut numbers: FxHashMap<&Value, u32> = FxHashMap::default();
    let zero = Value::from(0);
    // What was never written reads as 0, of a counter and of a list.
    numbers.insert(&zero, 0);
    let mut number = |value| *numbers.entry(value).or_insert_with(|| model.values.add(shown(value)));
    let mut events: Vec<(&Event, usize)> = Vec::with_capacity(2 * operations.len());
    for (at, operation) in operations.iter().enumerate() {
        // An operation that certainly did not happen says nothing, nor does a read of unknown result.
        let kind = operation.completion.map(|event| event.kind);
        if kind == Some(Kind::Fail) || (operation.f() == f::READ && kind != Some(Kind::Ok)) {
            continue;
        }
        events.push((operation.invoke, at));
        events.extend(operation.ok().map(|event| (event, at)));
    }
    events.sort_unstable_by_key(|(event, _)| event.index);
    let mut builder = Builder::new();
    let mut open = FxHashMap::default();
    for (event, at) in events {
        let stamp = Stamp { index: event.index, time_ns: Some(event.time) };
        let operation = operations[at];
        let reads = operation.f() == f::READ;
        if event.kind == Kind::Invoke {
            let op = if reads { RegisterOp::Read } else { RegisterOp::Write(number(&event.value)) };
            open.insert(at, builder.invoke_at(operation.process, op, stamp));
        } else if let Some(handle) = open.remove(&at) {
            let ret = if reads { RegisterRet::Value(number(&event.value)) } else { RegisterRet::Done };
            builder.complete_at(handle, ret, stamp);
        }
    }
    (model, builder.finish())
}

/// A value as evidence shows it: of a long list its length and its end, by which lists differ.
fn shown(value: &Value) -> String {
    match value.as_array().map(Vec::as_slice) {
        Some([.., a, b]) if value.as_array().is_some_and(|list| list.len() > 6) => {
            let more = value.as_array().map_or(0, Vec::len) - 2;
            format!("[{more} values, {a}, {b}]")
        }
        _ => value.to_string(),
    }
}

/// A finding, if there is no order; an error if there was no time to decide.
fn check_register(
    key: &str,
    model: &Register,
    history: &History<Register>,
    budget: &Budget,
) -> Result<Option<Finding>, NotJudged> {
    match decide(model, history, Algorithm::Auto, budget, None) {
        Answer::Linearizable => Ok(None),
        Answer::Impossible(conflict) => {
            let evidence = explain(model, history, &conflict, budget);
            Ok(Some(storage_finding(key, evidence)))
        }
        Answer::Unknown(reason) => {
            Err(NotJudged::because(format!("the operations of the storage were not decided: {reason}")))
        }
    }
}

fn storage_finding(key: &str, evidence: Evidence) -> Finding {
    let shown = &evidence.operations;
    let mut events: Vec<u64> = shown
        .iter()
        .flat_map(|operation| [Some(operation.invoke_index), operation.complete_index])
        .flatten()
        .collect();
    events.sort_unstable();
    let stuck = &shown[evidence.stuck];
    Finding {
        class: STORAGE_WITHOUT_ORDER.to_owned(),
        key: key.to_owned(),
        time: stuck.complete_ns.unwrap_or(stuck.invoke_ns),
        events,
        sentence: format!("{}: {}", named("the storage of", key), evidence.sentence),
        evidence: Some(Box::new(evidence)),
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests;
