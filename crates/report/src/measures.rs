//! Figures of a run that pictures and tables share: operations by name and outcome, latencies, rates.

use fencepost_checker::run_index::Operation;
use fencepost_checker::{RunIndex, quantile};
use fencepost_history::{Kind, f, once};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Ok,
    Fail,
    Info,
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

#[derive(Debug, Default, PartialEq)]
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
    let names = names(run);
    let mut tallies: Vec<Tally> = names.iter().map(|name| Tally { f: name, ..Tally::default() }).collect();
    let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); names.len()];
    for operation in &run.operations {
        let Some(at) = names.iter().position(|name| *name == operation.f()) else { continue };
        match end(operation) {
            End::Ok => {
                tallies[at].ok += 1;
                latencies[at].extend(latency_ns(operation));
            }
            End::Fail => tallies[at].fail += 1,
            End::Info | End::Never => tallies[at].info += 1,
        }
    }
    for (tally, mut latencies) in tallies.iter_mut().zip(latencies) {
        latencies.sort_unstable();
        let within = |share: f64| quantile(&latencies, share);
        (tally.median_ns, tally.p99_ns, tally.max_ns) = (within(0.5), within(0.99), within(1.0));
    }
    tallies
}

pub fn names<'a>(run: &RunIndex<'a>) -> Vec<&'a str> {
    let mut names = once(run.operations.iter().map(|operation| operation.f()));
    names.sort_by_key(|name| {
        (f::OPERATIONS.iter().position(|known| known == name).unwrap_or(f::OPERATIONS.len()), *name)
    });
    names
}
