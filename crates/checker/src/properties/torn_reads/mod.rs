//! The pair: a process that reads it under the lock finds it whole. In the workload `read-write` a writer
//! changes one half, works, and changes the other, to a value that no other write has: a pair whose halves
//! differ shows which write it was read in the middle of. If that writer is known to have believed then or
//! later, its reader was let in beside it. If it is not, its second write was late, which no lock prevents,
//! or never came: a writer that was ended leaves a pair half changed, which is no finding.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use super::under_holds::holds_of_operations;
use crate::figures::figures;
use crate::prose::{lock, seconds};
use crate::run_index::{Operation, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
use fencepost_history::{LockKind, Pair, f};
use rustc_hash::FxHashMap;

figures! {
    /// How pairs were read.
    TornReadsFigures of "torn-reads" {
        reads: u64,
        torn: u64,
        /// Read half changed where the writer, or the reader, is not known to have held the lock any more.
        left_half: u64,
    }
}

const TORN: &str = "torn-read";
const TORN_LATE: &str = "torn-late";

pub(super) const TORN_READS: Checker = Checker {
    classes: &[
        FindingClass {
            name: TORN,
            meaning: "A process read a pair of values when a writer had changed only one of them, and the writer still believed that it held the lock.",
            advice: "Find out why the lock let both in; a reader has no token that a storage could check, so nothing else protects it.",
        },
        FindingClass {
            name: TORN_LATE,
            meaning: "A process read a pair of values half changed, since the second write of its writer arrived after its lock was over.",
            advice: "Let a writer change everything in one step, or let the storage check a fencing token.",
        },
    ],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    kind: Some(LockKind::ReadWrite),
    ..Checker::of::<TornReadsFigures>("the pair: no reader finds a half-changed pair", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let mut writes: FxHashMap<(&str, Pair), &Operation> = FxHashMap::default();
    for operation in run.calls(f::WRITE) {
        if let Some(pair) = Pair::of(&operation.invoke.value) {
            writes.insert((operation.key, pair), operation);
        }
    }
    not_judged_if!(writes.is_empty(), "the workload changes no pair");
    let holds = holds_of_operations(run);
    let (mut figures, mut findings) = (TornReadsFigures::default(), Vec::new());
    for read in run.calls(f::READ) {
        let Some(pair) = read.ok().and_then(|ok| Pair::of(&ok.value)) else { continue };
        figures.reads += 1;
        let Some(half) = writes.get(&(read.key, pair)).filter(|_| !pair.is_whole()) else { continue };
        let whole = writes.get(&(read.key, Pair(pair.0, pair.0))).copied();
        match finding(run, &holds, read, half, whole) {
            Some(finding) => findings.push(finding),
            None => figures.left_half += 1,
        }
    }
    figures.torn = findings.len() as u64;
    let (reads, torn) = (figures.reads, figures.torn);
    let (outcome, summary) = match (reads, torn) {
        (0, _) => (Outcome::Unknown, "no process read a pair that had been written".to_owned()),
        (_, 0) => (Outcome::Valid, format!("none of {reads} reads found a pair that a writer was changing")),
        _ => (Outcome::Violation, format!("{torn} of {reads} reads found a pair half changed")),
    };
    Ok(Verdict::new(checker.name, outcome, summary).with_figures(&figures).with_findings(findings))
}

/// A read under one hold, in the middle of a write under another. None where nothing shows that both held.
fn finding(
    run: &RunIndex,
    holds: &FxHashMap<u64, usize>,
    read: &Operation,
    half: &Operation,
    whole: Option<&Operation>,
) -> Option<Finding> {
    let under = |operation: &Operation| Some(&run.holds[*holds.get(&operation.invoke.index)?]);
    let (reader, writer, answer) = (under(read)?, under(half)?, read.ok()?);
    // To read shows no belief: a reader whose lock has run out, and that does not go on, was only late.
    if reader.process == writer.process || reader.until < answer.index {
        return None;
    }
    let (class, how) = if writer.until > read.invoke.index {
        (TORN, format!("still believed at {} that it held the lock", seconds(writer.until_ns)))
    } else {
        let late = whole.and_then(Operation::ok).filter(|ok| ok.index > read.invoke.index)?;
        (TORN_LATE, format!("changed the other only at {}", seconds(late.time)))
    };
    let mut events = vec![writer.from, reader.from, half.invoke.index, answer.index];
    events.extend(whole.map(|whole| whole.invoke.index));
    let is_reader = !reader.claim.is_alone();
    let (process, lock, writer) = (reader.process, lock(read.key), writer.process);
    let role = if is_reader { "reader" } else { "writer" };
    let [from, at] = [reader.from_ns, answer.time].map(seconds);
    let sentence = format!(
        "process {process}, which held {lock} as a {role} from {from} on, read at {at} a pair when process {writer} had changed only \
         one half, and process {writer} {how}"
    );
    Some(Finding::new(class, read.key, answer.time, events, sentence))
}

#[cfg(test)]
mod tests;
