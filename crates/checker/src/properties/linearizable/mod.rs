//! What the lock protects: some order of the reads and writes of the storage fits a register. Whether two
//! held the lock at once is for `exclusion`. Key by key, it is a register that starts as 0, whatever a
//! workload makes of it (a counter that it reads and writes back, a list that it extends). A write that was
//! rejected did not happen; one of unknown end may have, at any later time. Only a history that says that its
//! storage is one register a key is judged: data inside the lock service becomes visible with the release,
//! and replicas promise less. A storage that lost its memory to a fault is none either. The search for an
//! order has a second; past it the run is not judged by this checker, and its verdict does not change.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use crate::budget::Budget;
use crate::evidence::{Evidence, explain};
use crate::figures::figures;
use crate::judge::{Algorithm, AlgorithmAnswer, decide};
use crate::model::History;
use crate::models::{Register, RegisterOp, RegisterRet};
use crate::operations::{Builder, Stamp};
use crate::run_index::{Operation, RunIndex};
use crate::verdict::{Finding, Verdict};
use crate::whose::Harm;
use fencepost_history::{Event, Kind, ResourceUse, STORAGE_IS_REGISTER, f, is_storage};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

figures! {
    /// How much was put in order.
    LinearizableFigures of "linearizable" {
        storage_operations: u64,
    }
}

const STORAGE_WITHOUT_ORDER: &str = "storage-without-order";

const TIME: Duration = Duration::from_secs(1);

/// Bytes that the search may take for each key.
const MEMORY_BYTES: usize = 256 << 20;

pub(super) const LINEARIZABLE: Checker = Checker {
    classes: &[FindingClass {
        name: STORAGE_WITHOUT_ORDER,
        meaning: "No order of the reads and writes fits the storage: a read returned what cannot have been there.",
        advice: "Distrust the storage, or a client that reports more than it knows, before the lock.",
    }],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    ..Checker::of::<LinearizableFigures>(
        "linearizability: some order of the reads and writes fits the storage",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    not_judged_if!(
        !is_register(run),
        "the history does not say that its storage is one register for each key"
    );
    let registers = registers(run);
    let operations: usize = registers.values().map(|(_, history)| history.len()).sum();
    not_judged_if!(operations == 0, "no process used the storage");
    let budget = Budget::new(TIME, MEMORY_BYTES);
    let answers: Vec<_> = registers
        .par_iter()
        .map(|(key, (model, history))| check_register(key, model, history, &budget))
        .collect();
    let (mut findings, mut undecided) = (Vec::new(), None);
    for answer in answers {
        match answer {
            Ok(finding) => findings.extend(finding),
            Err(reason) => undecided = undecided.or(Some(reason)),
        }
    }
    if let Some(reason) = undecided.filter(|_| findings.is_empty()) {
        return Err(reason);
    }
    let summary = match findings.len() {
        0 => format!("there is an order that fits all {operations} operations of the storage"),
        1 => "no order fits the reads and writes of one key of the storage".to_owned(),
        keys => format!("no order fits the reads and writes of {keys} keys of the storage"),
    };
    let figures = LinearizableFigures { storage_operations: operations as u64 };
    Ok(checker.judged(summary, &figures, findings))
}

/// Whether the storage is one register a key, and kept its memory over all faults.
fn is_register(run: &RunIndex) -> bool {
    let forgot = run.faults.iter().any(|fault| {
        fault.targets.iter().any(|target| is_storage(target)) && !fault.description.keeps_memory
    });
    run.storage == Some(STORAGE_IS_REGISTER) && !forgot
}

type RegisterHistory = (Register, History<Register>);

fn registers<'a>(run: &RunIndex<'a>) -> BTreeMap<&'a str, RegisterHistory> {
    let mut by_key: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in run.operations.iter().filter(|operation| matches!(operation.f(), f::READ | f::WRITE)) {
        by_key.entry(operation.key).or_default().push(operation);
    }
    // A resource that counts its users is no register.
    by_key.retain(|_, operations| operations.iter().all(|it| ResourceUse::of(&it.invoke.value).is_none()));
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
        AlgorithmAnswer::Linearizable => Ok(None),
        AlgorithmAnswer::Impossible(conflict) => {
            let evidence = explain(model, history, &conflict, budget);
            Ok(Some(storage_finding(key, evidence)))
        }
        AlgorithmAnswer::Unknown(reason) => {
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
    let time = stuck.complete_ns.unwrap_or(stuck.invoke_ns);
    let space = if key.is_empty() { "" } else { " " };
    let sentence = format!("the storage of{space}{key}: {}", evidence.sentence);
    let finding = Finding::new(STORAGE_WITHOUT_ORDER, key, time, events, sentence);
    Finding { evidence: Some(Box::new(evidence)), ..finding }
}

#[cfg(test)]
mod tests;
