//! A verdict in plain words, for somebody who has never heard of the lock that was tested.

mod abandoned;
mod broken;
mod counts;
mod whose;

pub use counts::{capital, figures};
pub use whose::{whose_and_advice, with_whose};

use crate::heading::Heading;
use crate::pictures::lanes::Lanes;
use fencepost_checker::{
    ExclusionFigures, LostUpdatesFigures, Outcome, RunIndex, RunVerdict, Verdict, registry, seconds, times,
};
use fencepost_history::{Balance, LockKind, LogEntry, NodeKind, Pair, ResourceUse, RunPhase, Tick, f, once};
use serde_json::Value;
use std::collections::HashSet;

/// The state of a property that was violated, or not decided, and that the lock does not claim.
pub const UNCLAIMED: &str = "unclaimed";

/// What a checker observed, whose failure a violation is, and whether the lock claims the property.
pub fn observation(verdict: &Verdict) -> String {
    match verdict.claimed || verdict.outcome == Outcome::Valid {
        true => with_whose(&verdict.summary, &verdict.attributions()),
        false => format!("not claimed by the lock, so it does not count: {}", verdict.summary),
    }
}

/// The verdict of a run in one sentence, and one more about violated properties that the lock does not claim.
pub fn sentence(heading: &Heading, run: &RunIndex, verdict: &RunVerdict) -> String {
    let sentence = claimed_sentence(heading, run, verdict);
    let not_claimed = |each: &&Verdict| each.outcome == Outcome::Violation && !each.claimed;
    let unclaimed: Vec<&str> =
        verdict.verdicts.iter().filter(not_claimed).map(|each| property(&each.checker).0).collect();
    match unclaimed[..] {
        [] => sentence,
        _ => format!("{sentence} Violated, but not claimed by the lock: {}.", unclaimed.join(", ")),
    }
}

fn claimed_sentence(heading: &Heading, run: &RunIndex, verdict: &RunVerdict) -> String {
    match verdict.outcome {
        Outcome::Violation => broken::broken(heading, run, verdict),
        Outcome::Valid => held(heading, run, verdict),
        Outcome::Unknown => {
            format!("It is unknown whether the lock held: {}.", summary_of(verdict, Outcome::Unknown))
        }
        Outcome::Vacuous => format!("This run proves nothing: {}.", summary_of(verdict, Outcome::Vacuous)),
    }
}

fn summary_of(verdict: &RunVerdict, outcome: Outcome) -> &str {
    let first = verdict.verdicts.iter().find(|verdict| verdict.claimed && verdict.outcome == outcome);
    first.map_or("nothing was checked", |verdict| &verdict.summary)
}

fn held(heading: &Heading, run: &RunIndex, verdict: &RunVerdict) -> String {
    let holds = figures::<ExclusionFigures>(verdict).holds.max(run.holds.len() as u64);
    let under = match heading.nemesis.as_str() {
        "none" | "" => "without any faults".to_owned(),
        nemesis => format!("under {}", nemesis.replace(',', " and ")),
    };
    let (lock, times) = (&heading.title, times(holds));
    if verdict.outcome_of::<ExclusionFigures>() == Some(Outcome::Violation) {
        return format!("All that {lock} claims held: it granted the lock {times} {under}.");
    }
    // A lock that excludes no process has not held as a lock does: only its data has been put to the test.
    let text = if run.excluding_holds().next().is_some() || run.holds.is_empty() {
        format!("The lock held: {lock} granted it {times} {under}, {}", never(run))
    } else {
        format!("No property was violated: {lock}, which excludes no process, was entered {times} {under}")
    };
    let text = match figures::<LostUpdatesFigures>(verdict) {
        LostUpdatesFigures { acknowledged: 0, .. } => text + ".",
        LostUpdatesFigures { lost: 1.., .. } => text + ".",
        LostUpdatesFigures { acknowledged, .. } => {
            format!("{text}, and all {acknowledged} updates are there.")
        }
    };
    let little = if is_too_busy(run) { " Little was tested: the machine was too busy." } else { "" };
    text + unmoved_clients(run) + little
}

/// To whom a lock that held was never given.
fn never(run: &RunIndex) -> &'static str {
    match run.lock.kind {
        LockKind::Mutex | LockKind::Reentrant => "never to two processes at once",
        LockKind::Several => "never two sets with a common name at once",
        LockKind::ReadWrite => "never to a writer beside another process",
        LockKind::Semaphore => "never to more processes at once than it has permits",
        LockKind::Election => "never to two leaders at once",
    }
}

/// What a lock that lives by clients' clocks was not put to, where clocks of servers only were moved.
fn unmoved_clients(run: &RunIndex) -> &'static str {
    let mut moved = run.faults.iter().filter(|fault| fault.effective && fault.description.moves_clocks);
    let is_client = |target: &&str| run.kind_of(target) == Some(NodeKind::Client);
    match moved.clone().next().is_some() && !moved.any(|fault| fault.targets.iter().any(is_client)) {
        true => " No client's clock was moved, so this says nothing about one that is wrong.",
        false => "",
    }
}

/// What a reader must know first: ended servers, a cut, stalls, abandoned sections. A few sentences.
pub fn caveat(run: &RunIndex) -> Option<String> {
    let caveats = unfinished(run).into_iter().chain(stalled(run)).chain(abandoned::abandoned(run));
    let caveats: Vec<String> = caveats.collect();
    (!caveats.is_empty()).then(|| caveats.join(" "))
}

fn unfinished(run: &RunIndex) -> Option<String> {
    if let Some(why) = run.why_its_end_says_nothing() {
        let ended = run.ended_unexplained().map(|(_, ended)| ended).filter(|ended| !ended.was_killed());
        let log = ended.filter(|ended| !ended.log.is_empty());
        let log = log.map(|ended| format!(" Its log says: {}.", ended.log.join(" / "))).unwrap_or_default();
        return Some(format!("{}. What came after that is no result about the lock.{log}", capital(&why)));
    }
    run.phase(RunPhase::Closing).is_none().then(|| {
        format!(
            "This run has not come to its end: it is still going, or it was cut off. What stands here is what was recorded \
             up to {}; the verdict may change.",
            seconds(run.end_ns)
        )
    })
}

/// Whether programs waited for a core in more than half of the run.
fn is_too_busy(run: &RunIndex) -> bool {
    2 * run.stalls.within((0, run.end_ns)) > run.end_ns
}

fn stalled(run: &RunIndex) -> Option<String> {
    let stalled_ns = run.stalls.within((0, run.end_ns));
    let (busy, end) = match is_too_busy(run) {
        true => ("too busy for this run", ", so little was tested; `fencepost doctor` measures the machine"),
        false => ("busy", ""),
    };
    (10 * stalled_ns > run.end_ns).then(|| {
        format!(
            "The machine was {busy}: for {} of {} a program of its nodes was ready and waited for a core. That time counts \
             against no lock{end}.",
            seconds(stalled_ns),
            seconds(run.end_ns)
        )
    })
}

/// What was done in this run and what a lock is for, in a few sentences.
pub fn background(heading: &Heading, run: &RunIndex) -> String {
    let processes = Lanes::of(run).lanes.len();
    let keys: HashSet<&str> = run
        .operations
        .iter()
        .filter(|operation| operation.f() == f::ACQUIRE)
        .map(|operation| operation.key)
        .collect();
    let locks = if keys.len() == 1 { "one lock".to_owned() } else { format!("{} locks", keys.len()) };
    let effective = run.faults.iter().filter(|fault| fault.effective).count();
    let trouble = match run.faults.len() {
        0 => "Nothing was broken on purpose.".to_owned(),
        1 => {
            let no = if effective == 1 { "" } else { "no " };
            format!("Meanwhile a fault was injected ({}); it took {no}effect.", kinds(run))
        }
        all => {
            format!("Meanwhile {all} faults were injected ({}); {effective} of them took effect.", kinds(run))
        }
    };
    format!(
        "{} In this run {processes} processes at a time \
         competed for {locks} ({}) for {:.0} seconds. {}{trouble}",
        lets_in(run),
        heading.title,
        run.end_ns as f64 / 1e9,
        protected(run),
    )
}

fn lets_in(run: &RunIndex) -> &'static str {
    match run.lock.kind {
        LockKind::Mutex => "A lock lets at most one process in at a time.",
        LockKind::ReadWrite => "A read-write lock lets in any number of readers, or one writer.",
        LockKind::Semaphore => "A semaphore lets in as many processes at a time as it has permits.",
        LockKind::Election => "An election lets at most one process lead at a time.",
        LockKind::Reentrant => {
            "A reentrant lock lets at most one process in at a time, until that has released it as often as it acquired it."
        }
        LockKind::Several => "A lock on several names lets at most one process in at a time for each name.",
    }
}

fn protected(run: &RunIndex) -> &'static str {
    match run.operations.iter().find(|operation| operation.f() == f::WRITE) {
        Some(write) if Pair::of(&write.invoke.value).is_some() => {
            "Inside, writers changed a pair in two steps, and readers read it. "
        }
        Some(write) if LogEntry::of(&write.invoke.value).is_some() => {
            "The leader read the last entry of a log, and wrote its own with its term. "
        }
        Some(write) if ResourceUse::of(&write.invoke.value).is_some() => {
            "Inside, each entered a resource that counts its users, and left it. "
        }
        Some(write) if write.invoke.value.is_array() && Balance::of(&write.invoke.value).is_some() => {
            "Inside, each moved a unit of money from one account to another. "
        }
        Some(write) if Tick::of(&write.invoke.value).is_some() => {
            "Inside, each ran a job that is to run once a tick. "
        }
        Some(write) if write.invoke.value.is_array() => {
            "Inside, each read a set and wrote it back with one more value. "
        }
        Some(_) => "Inside, each read a counter and wrote it back plus one. ",
        None => "",
    }
}

fn kinds(run: &RunIndex) -> String {
    once(run.faults.iter().map(|fault| fault.description.summary.as_str())).join(", ")
}

/// The property that a checker checks: in two or three words, and in a line.
pub fn property(checker: &str) -> (&str, &str) {
    let known = registry().iter().find(|known| known.name == checker);
    known.and_then(|known| known.about.split_once(": ")).unwrap_or((checker, ""))
}

/// How to read the drawing of a violation that is about these holds.
pub fn drawing(run: &RunIndex, holds: &[usize]) -> String {
    let mut text = String::from(
        "A full bar: the process believes that it holds the lock. The thin line below: how long the lock was promised to \
         the process.",
    );
    if holds.iter().any(|&hold| !run.holds[hold].granted_by.is_empty()) {
        text += " The lane of a server shows to which process it granted the lock, until the release or the end of the \
                 lock's time; a red cross marks a second grant before that.";
    }
    if !run.faults.is_empty() {
        text += " A flash: a fault begins.";
    }
    text
}

/// A value for people: `wall_ms 60000, monotonic_ms 60000`.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| match value {
                Value::Array(items) if items.iter().any(Value::is_array) => {
                    format!("{name} {}", items.iter().map(plain).collect::<Vec<_>>().join(" | "))
                }
                value => format!("{name} {}", plain(value)),
            });
            fields.collect::<Vec<_>>().join(", ")
        }
        // No more digits of milliseconds than anybody can use.
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            ((number * 1000.0).round() / 1000.0).to_string()
        }
        value => value.to_string(),
    }
}
