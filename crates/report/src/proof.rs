//! A finding proved step by step: events, the grants' ledger, and whose it is (docs/soundness.md).

use crate::shown_findings::{ShownFinding, shown_findings};
use fencepost_checker::run_index::Hold;
use fencepost_checker::{Claim, Finding, RunIndex, RunVerdict, find_class, ledger_table, seconds};
use fencepost_history::{Event, f};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// What was found, in a sentence.
    pub claim: String,
    /// In order: what an event shows, and what follows.
    pub steps: Vec<String>,
    /// The grants that it is about, as `analyze --ledger` prints them; empty where it is about none.
    pub ledger: String,
    /// Whose failure it is, and what that means.
    pub whose: String,
}

/// The proofs of the findings that a report describes, in its order: one of each class of violation.
pub fn proofs(run: &RunIndex, verdict: &RunVerdict) -> Vec<Proof> {
    shown_findings(run, verdict).iter().map(|shown| proof(run, verdict, shown)).collect()
}

pub(crate) fn proof(run: &RunIndex, verdict: &RunVerdict, shown: &ShownFinding) -> Proof {
    let finding = shown.finding;
    let is_of = |one: &&fencepost_checker::Verdict| one.findings.iter().any(|other| other == finding);
    let checker = verdict.verdicts.iter().find(is_of).map_or("", |one| one.checker.as_str());
    let mut steps = match (checker, &shown.holds[..]) {
        ("exclusion", &[ref earlier @ .., last]) if !earlier.is_empty() => {
            let earlier: Vec<&Hold> = earlier.iter().map(|&at| &run.holds[at]).collect();
            of_overlap(run, finding, &earlier, &run.holds[last])
        }
        _ => finding.events.iter().filter_map(|index| run.event(*index)).map(in_words).collect(),
    };
    if let Some(class) = find_class(&finding.class) {
        steps.push(class.meaning.to_owned());
    }
    let begun_ns = finding.events.first().and_then(|index| run.event(*index)).map_or(0, |event| event.time);
    let stalled_ns = run.stalls.within((begun_ns, finding.time));
    if stalled_ns > 0 {
        steps.push(format!("Meanwhile the machine stalled for {} (no injected fault).", seconds(stalled_ns)));
    }
    let whose =
        finding.attribution().map(|whose| format!("{whose}: {}", whose.meaning())).unwrap_or_default();
    let ledger = if shown.holds.is_empty() { String::new() } else { ledger_table(run, Some(&shown.holds)) };
    Proof {
        claim: format!("{} ({checker}): {}", finding.class.replace('-', " "), finding.sentence),
        steps,
        ledger,
        whose,
    }
}

/// Holds of one lock at one moment that do not fit together: by the order of events.
fn of_overlap(run: &RunIndex, finding: &Finding, earlier: &[&Hold], b: &Hold) -> Vec<String> {
    let event = |index: u64| run.event(index).map(in_words).unwrap_or_default();
    let belief = |index: u64| match run.event(index).map_or("", |event| &*event.f) {
        f::RELEASE => "had not released it before, so up to here it held it",
        f::WRITE => "wrote under the lock, so here it held it",
        _ => "said that it held the lock",
    };
    let mut steps: Vec<String> = Vec::new();
    for (at, hold) in earlier.iter().copied().chain([b]).enumerate() {
        let what = if at == 0 { b.key } else { "it" };
        steps.push(format!("{}: process {} holds {what} from here on.", event(hold.from), hold.process));
    }
    steps.extend(
        earlier.iter().map(|a| format!("{}: process {} {}.", event(a.until), a.process, belief(a.until))),
    );
    let none = match earlier {
        [a] => format!(
            "No event between event {} and event {} shows that process {} let go of {}.",
            a.from, a.until, a.process, b.key
        ),
        _ => format!("No event between the two events of each process shows that it let go of {}.", b.key),
    };
    let claims: Vec<Claim> = earlier.iter().copied().chain([b]).map(|hold| hold.claim).collect();
    let kind = Claim::too_many(&claims, run.lock.kind).map_or(String::new(), |words| format!(": {words}"));
    steps.push(format!(
        "{none} All times are of one clock, the controller's. So at {} {} held it{kind}.",
        seconds(finding.time),
        if earlier.len() == 1 { "both processes" } else { "all of them" },
    ));
    steps
}

/// `event 70, 1.869 s: process 0: acquire k0 ok {"granted_by":["n1"]}`.
fn in_words(event: &Event) -> String {
    let value = if *event.value == Value::Null { String::new() } else { format!(" {}", *event.value) };
    let key = event.key.as_ref().map_or(String::new(), |key| format!(" {key}"));
    let error = event.error.as_ref().map_or(String::new(), |error| format!(" ({})", &**error));
    format!(
        "event {}, {}: process {}: {}{key} {}{value}{error}",
        event.index,
        seconds(event.time),
        event.process,
        event.f,
        event.kind.name()
    )
}
