//! The data: every acknowledged increment is in the final value. In the increment workload a process writes
//! what it read plus one. The final value F of a key is reached by a chain of writes, one for each value up
//! to F. So of the acknowledged writes of one value at most one can be in the chain, and of those above F
//! none: **at least** (acknowledged writes) − (distinct acknowledged values up to F) updates are lost.
//! Indeterminate writes are left out: in the chain they could only make the true loss greater.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use super::fencing::GrantOrder;
use super::under_holds::holds_of_operations;
use crate::figures::figures;
use crate::ledger::judgement::{Class, class};
use crate::prose::{lost_of, seconds};
use crate::run_index::{Hold, HoldEnd, RunIndex};
use crate::storage_order::storage_order;
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
use fencepost_history::{Kind, RunPhase, f};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

figures! {
    /// What became of acknowledged updates.
    LostUpdatesFigures of "lost-updates" {
        acknowledged: u64,
        lost: u64,
        /// `lost` of `acknowledged`, from 0 to 1.
        share: f64,
        indeterminate: u64,
        rejected: u64,
        r#final: Map<String, Value>,
    }
}

const LOST: &str = "lost-update";
const WRITTEN_AFTER_LOSS: &str = "written-after-loss";
const WRITTEN_LATE: &str = "written-late";

#[derive(Clone, Copy)]
struct Update {
    process: u64,
    value: i64,
    invoke: u64,
    ok: u64,
    ok_ns: u64,
    /// Among the writes of its key; see [`put_in_order`].
    place: usize,
}

#[derive(Default)]
struct KeyUpdates {
    acknowledged: Vec<Update>,
    indeterminate: usize,
    rejected: usize,
    /// The last value read in the closing phase, with the event and its time.
    closing: Option<(i64, u64, u64)>,
}

pub(super) const LOST_UPDATES: Checker = Checker {
    classes: &[
        FindingClass {
            name: LOST,
            meaning: "The storage acknowledged a write, and yet the write is not in the final value.",
            advice: "Look at the two holders of this story: find out why the lock let both in, and let the storage reject writes of \
                     superseded holders.",
        },
        FindingClass {
            name: WRITTEN_AFTER_LOSS,
            meaning: "A process sent a write although it had been notified that its lock was lost, and an update was lost.",
            advice: "Let the client stop at the notice; and let the storage check a fencing token, since a notice can come too late.",
        },
        FindingClass {
            name: WRITTEN_LATE,
            meaning: "A write was sent or arrived when the lock of its process was over, and an update was lost: the storage checks no token.",
            advice: "Let the storage check a fencing token in one step with the write, or write in a transaction that the lock's own \
                     servers check; no lock prevents a late write by itself.",
        },
    ],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    ..Checker::of::<LostUpdatesFigures>("the data: every acknowledged increment is in the final value", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let keys = collect(run);
    not_judged_if!(keys.is_empty(), "the workload increments no counter");
    let sum = |count: fn(&KeyUpdates) -> usize| keys.values().map(count).sum::<usize>();
    let acknowledged = sum(|key| key.acknowledged.len());
    let lost: usize = keys.values().map(lost_at_least).sum();
    let unread: Vec<_> = keys.iter().filter(|(_, key)| key.closing.is_none()).collect();

    let (outcome, summary) = if lost > 0 {
        (Outcome::Violation, lost_of(lost, acknowledged, "updates"))
    } else if let Some((key, _)) = unread.first() {
        let more = if unread.len() > 1 { format!(" and {} more", unread.len() - 1) } else { String::new() };
        (Outcome::Unknown, format!("no process read the final value of {key}{more}"))
    } else {
        (Outcome::Valid, format!("all {acknowledged} acknowledged updates are in the final values"))
    };
    let finals: Map<_, _> =
        keys.iter().filter_map(|(name, key)| Some(((*name).to_owned(), key.closing?.0.into()))).collect();
    let holds = if lost == 0 { FxHashMap::default() } else { holds_of_operations(run) };
    let order = GrantOrder::of(run);
    let found = keys.iter().flat_map(|(name, key)| findings(name, key));
    let findings = found.map(|(mut finding, writes)| {
        if let Some(writes) = writes {
            name_cause(run, &order, &holds, writes, &mut finding);
        }
        finding
    });
    let verdict = Verdict::new(checker.name, outcome, summary).with_figures(&LostUpdatesFigures {
        acknowledged: acknowledged as u64,
        lost: lost as u64,
        share: lost as f64 / acknowledged.max(1) as f64,
        indeterminate: sum(|key| key.indeterminate) as u64,
        rejected: sum(|key| key.rejected) as u64,
        r#final: finals,
    });
    Ok(verdict.with_findings(findings.collect()))
}

fn collect<'a>(run: &RunIndex<'a>) -> BTreeMap<&'a str, KeyUpdates> {
    let closing = run.phase(RunPhase::Closing).map(|phase| phase.from);
    let mut keys: BTreeMap<&str, KeyUpdates> = BTreeMap::new();
    for operation in run.calls(f::WRITE) {
        // A list is a set, and another checker's.
        if operation.invoke.value.is_array() {
            continue;
        }
        let key = keys.entry(operation.key).or_default();
        match operation.completion.map(|event| event.kind) {
            Some(Kind::Ok) => {}
            Some(Kind::Fail) => key.rejected += 1,
            _ => key.indeterminate += 1,
        }
        if let (Some(ok), Some(value)) = (operation.ok(), operation.invoke.value.as_i64()) {
            key.acknowledged.push(Update {
                process: operation.process,
                value,
                invoke: operation.invoke.index,
                ok: ok.index,
                ok_ns: ok.time,
                place: 0,
            });
        }
    }
    for operation in run.calls(f::READ) {
        if let Some(key) = keys.get_mut(operation.key)
            && closing.is_some_and(|from| operation.invoke.index > from)
            && let Some(ok) = operation.ok()
            && let Some(value) = ok.value.as_i64()
        {
            key.closing = Some((value, ok.index, ok.time));
        }
    }
    let logged = storage_order(run).into_iter().enumerate();
    let logged = logged.map(|(place, at)| (run.operations[at].invoke.index, place)).collect();
    keys.values_mut().for_each(|key| put_in_order(&mut key.acknowledged, &logged));
    keys
}

/// In the order of the storage's log, else of the answers, which can cross each other.
fn put_in_order(writes: &mut [Update], logged: &FxHashMap<u64, usize>) {
    let all = writes.iter().all(|write| logged.contains_key(&write.invoke));
    writes.sort_by_key(|write| if all { logged[&write.invoke] as u64 } else { write.ok });
    writes.iter_mut().enumerate().for_each(|(place, write)| write.place = place);
}

/// How many acknowledged writes cannot be in the final value; unread, those whose place another took.
fn lost_at_least(key: &KeyUpdates) -> usize {
    let last = key.closing.map_or(i64::MAX, |(value, ..)| value);
    let kept: FxHashSet<i64> =
        key.acknowledged.iter().map(|write| write.value).filter(|value| *value <= last).collect();
    key.acknowledged.len() - kept.len()
}

/// What is found on a key, with the two writes that it is about, if any.
fn findings(name: &str, key: &KeyUpdates) -> Vec<(Finding, Option<[Update; 2]>)> {
    let mut first: FxHashMap<i64, Update> = FxHashMap::default();
    let mut greatest: Option<Update> = None;
    // The last write that set the counter back, with the one that it overwrote: later ones repeat values.
    let (mut last, mut back): (Option<Update>, Option<[Update; 2]>) = (None, None);
    let mut findings = Vec::new();
    let finding = |write: &Update, events: Vec<u64>, sentence: String| {
        Finding::new(LOST, name, write.ok_ns, events, sentence)
    };
    for write in &key.acknowledged {
        let Update { process, value, ok_ns, .. } = *write;
        let time = seconds(ok_ns);
        back = match last.replace(*write) {
            Some(last) if last.value >= value => Some([last, *write]),
            _ => back,
        };
        if let Some(before) = first.get(&value) {
            let sentence = format!(
                "process {} and process {process} both got the answer that their write of {value} was done, at {} and at \
                 {time}: two increments, and the value grew by one",
                before.process,
                seconds(before.ok_ns),
            );
            let cause = back.filter(|[over, _]| over.place >= before.place);
            let beside = cause.map(|[over, late]| if late.ok == write.ok { over } else { late });
            let beside = beside.filter(|beside| beside.ok != before.ok);
            let [one, late] = cause.unwrap_or([*before, *write]);
            let by = beside.map(|by| format!("; in between process {} had written {}", by.process, by.value));
            let mut events = vec![one.ok, late.ok, write.ok];
            events.dedup();
            findings.push((finding(write, events, sentence + &by.unwrap_or_default()), Some([one, late])));
        } else if let Some(before) = greatest
            && before.ok < write.invoke
            && before.value > value
        {
            let sentence = format!(
                "process {process} wrote {value} at {time}, after process {} had got the answer at {} that its write of {} \
                 was done: the counter went back",
                before.process,
                seconds(before.ok_ns),
                before.value,
            );
            findings.push((finding(write, vec![before.ok, write.ok], sentence), Some([before, *write])));
        }
        first.entry(value).or_insert(*write);
        if greatest.is_none_or(|before| before.value < value) {
            greatest = Some(*write);
        }
    }
    if let (Some((last, read, _)), Some(write)) = (key.closing, greatest)
        && write.value > last
    {
        let sentence = format!(
            "process {} got the answer at {} that its write of {} was done, but the final value is {last}",
            write.process,
            seconds(write.ok_ns),
            write.value,
        );
        let events = match back.filter(|[over, _]| over.place >= write.place) {
            Some([over, late]) => vec![over.ok, late.ok, read],
            None => vec![write.ok, read],
        };
        findings.push((finding(&write, events, sentence), None));
    }
    findings
}

/// Says which of a finding's two writes was late, and how that is known; else leaves it as it is.
fn name_cause(
    run: &RunIndex,
    order: &GrantOrder,
    holds: &FxHashMap<u64, usize>,
    [one, other]: [Update; 2],
    finding: &mut Finding,
) {
    let of = |write: Update| holds.get(&write.invoke).copied();
    let (Some(first), Some(second)) = (of(one), of(other)) else { return };
    let (earlier, later, late) = match (order.came_after(second, first), order.came_after(first, second)) {
        (true, _) => (first, second, one),
        (_, true) => (second, first, other),
        _ => return,
    };
    let met = run.holds[earlier].until > run.holds[later].from;
    if met && class(run, &run.holds[earlier], &run.holds[later]) == Class::GrantedTwice {
        return;
    }
    if let Some((class, cause)) = lateness(run, &run.holds[earlier], late) {
        finding.class = class.to_owned();
        finding.sentence += &cause;
    }
}

/// How it is known that a write came after its hold: sent late, or sent in time. The class, and a clause.
fn lateness(run: &RunIndex, hold: &Hold, write: Update) -> Option<(&'static str, String)> {
    let (sent_ns, done_ns) = (run.event(write.invoke)?.time, write.ok_ns);
    let Hold { process, ends, .. } = hold;
    let let_go_ns = ends.let_go_ns;
    let (class, over) = match (ends.how, ends.lease, ends.cut) {
        (HoldEnd::Lost, ..) if let_go_ns <= done_ns => (
            if let_go_ns <= sent_ns { WRITTEN_AFTER_LOSS } else { WRITTEN_LATE },
            format!("process {process} was notified at {} that it had lost the lock", seconds(let_go_ns)),
        ),
        (_, Some(lease), _) if lease.earliest.ns <= done_ns => (
            WRITTEN_LATE,
            format!(
                "the lease of process {process} may have been over from {} on",
                seconds(lease.earliest.ns)
            ),
        ),
        (_, _, Some(cut)) if cut.ns <= done_ns => (
            WRITTEN_LATE,
            format!("process {process} may have been cut off from its lock at {}", seconds(cut.ns)),
        ),
        _ => return None,
    };
    let lease_ns = ends.lease.map_or(u64::MAX, |lease| lease.earliest.ns);
    let over_ns = ends.cut.map_or(lease_ns, |cut| cut.ns.min(lease_ns)).min(let_go_ns);
    let is_late = class == WRITTEN_AFTER_LOSS || ends.lease.is_some_and(|lease| lease.latest.ns <= sent_ns);
    let (sent, done) = match sent_ns < over_ns {
        true => (" in time", "arrived late: it was done"),
        false => (if is_late { " late" } else { "" }, "done"),
    };
    let (sent_at, done_at) = (seconds(sent_ns), seconds(done_ns));
    Some((class, format!("; {over}, and its write was sent{sent} at {sent_at} and {done} at {done_at}")))
}

#[cfg(test)]
mod tests;
