//! Figures of a run that pictures and tables share: operations by name and outcome, latencies, rates.

use fencepost_checker::run_index::Operation;
use fencepost_checker::{RunIndex, quantile};
use fencepost_history::{Kind, f};

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Ok,
    Fail,
    Info,
    /// The history has no completion.
    Never,
}

pub fn end(operation: &Operation) -> End {
    match operation.completion.map(|event| event.kind) {
        Some(Kind::Ok) => End::Ok,
        Some(Kind::Fail) => End::Fail,
        Some(Kind::Info | Kind::Invoke) => End::Info,
        None => End::Never,
    }
}

pub fn latency_ns(operation: &Operation) -> Option<u64> {
    operation.completion.map(|event| event.time.saturating_sub(operation.invoke.time))
}

/// The operations of one name.
#[derive(Debug, PartialEq)]
pub struct Tally<'a> {
    pub f: &'a str,
    pub ok: usize,
    pub fail: usize,
    pub info: usize,
    /// Latencies of those that succeeded.
    pub median_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
}

/// Operations by name, in the order in which a critical section uses them, then by name.
pub fn tallies<'a>(run: &RunIndex<'a>) -> Vec<Tally<'a>> {
    names(run).into_iter().map(|name| tally(run, name)).collect()
}

/// The names of a run's operations, in that order.
pub fn names<'a>(run: &RunIndex<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for operation in &run.operations {
        if !names.contains(&operation.f()) {
            names.push(operation.f());
        }
    }
    let usual = [f::ACQUIRE, f::HOLDS, f::READ, f::WRITE, f::RELEASE];
    names.sort_by_key(|name| (usual.iter().position(|known| known == name).unwrap_or(usual.len()), *name));
    names
}

fn tally<'a>(run: &RunIndex<'a>, name: &'a str) -> Tally<'a> {
    let count = |wanted: &[End]| mine(run, name).filter(|operation| wanted.contains(&end(operation))).count();
    let mut latencies: Vec<u64> =
        mine(run, name).filter(|operation| end(operation) == End::Ok).filter_map(latency_ns).collect();
    latencies.sort_unstable();
    Tally {
        f: name,
        ok: count(&[End::Ok]),
        fail: count(&[End::Fail]),
        info: count(&[End::Info, End::Never]),
        median_ns: quantile(&latencies, 0.5),
        p99_ns: quantile(&latencies, 0.99),
        max_ns: quantile(&latencies, 1.0),
    }
}

fn mine<'r, 'a>(run: &'r RunIndex<'a>, name: &'r str) -> impl Iterator<Item = &'r Operation<'a>> {
    run.operations.iter().filter(move |operation| operation.f() == name)
}
