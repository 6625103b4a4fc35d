//! What has to come of an act, and what was seen.

pub use fencepost_checker::Metric;
use fencepost_checker::{Outcome, RunVerdict};
use fencepost_history::{Event, Process};
use serde::Serialize;

/// What a run is compared by.
pub struct Seen<'a> {
    pub verdict: &'a RunVerdict,
    pub history: &'a [Event],
}

/// What was looked for, in words, whether it was there, and what was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub expected: String,
    pub met: bool,
    pub observed: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Metric>,
}

/// Looks at a run for one thing.
pub type Look = fn(&Seen) -> (bool, String, Vec<Metric>);

/// One expectation.
#[derive(Clone, Debug)]
pub enum Expect {
    /// The checker finds a violation of this class.
    Broken(&'static str, &'static str),
    /// The checker says that its promise held.
    Holds(&'static str),
    /// No checker finds anything.
    AllHold,
    /// Something of its own: what, and how to look for it.
    Look(&'static str, Look),
}

impl Expect {
    /// Compares.
    pub fn answer(&self, seen: &Seen) -> Answer {
        match self {
            Expect::Broken(checker, class) => broken(seen, checker, class),
            Expect::Holds(checker) => holds(seen, checker),
            Expect::AllHold => all_hold(seen),
            Expect::Look(expected, look) => {
                let (met, observed, figures) = look(seen);
                Answer { expected: (*expected).to_owned(), met, observed, figures }
            }
        }
    }
}

fn broken(seen: &Seen, checker: &str, class: &str) -> Answer {
    let verdict = seen.verdict.of_checker(checker);
    let finding = verdict.and_then(|verdict| verdict.findings.iter().find(|finding| finding.class == class));
    let observed = match (finding, verdict) {
        (Some(finding), _) => finding.sentence.clone(),
        (None, Some(verdict)) => verdict.summary.clone(),
        (None, None) => format!("{checker} had nothing to judge"),
    };
    Answer {
        expected: format!("broken: {}", class.replace('-', " ")),
        met: finding.is_some(),
        observed,
        figures: Vec::new(),
    }
}

fn holds(seen: &Seen, checker: &str) -> Answer {
    let verdict = seen.verdict.of_checker(checker);
    let (met, observed) = match verdict {
        Some(verdict) => (verdict.outcome == Outcome::Valid, verdict.summary.clone()),
        None => (false, format!("{checker} had nothing to judge")),
    };
    Answer { expected: format!("{} holds", checker.replace('-', " ")), met, observed, figures: Vec::new() }
}

fn all_hold(seen: &Seen) -> Answer {
    let worst = seen.verdict.verdicts.iter().find(|verdict| verdict.outcome == seen.verdict.outcome);
    let met = seen.verdict.outcome == Outcome::Valid;
    let observed = match worst {
        Some(_) if met => "no checker finds a violation, and the faults took effect".to_owned(),
        Some(verdict) => format!("{}: {}", verdict.checker, verdict.summary),
        None => "nothing was judged".to_owned(),
    };
    Answer { expected: "holds".to_owned(), met, observed, figures: Vec::new() }
}

/// What an operation of a process came to, in the order of the history.
pub fn completions<'a>(seen: &'a Seen, f: &'a str) -> impl Iterator<Item = &'a Event> {
    let completes = |event: &&Event| event.kind != fencepost_history::Kind::Invoke;
    let of_client = |event: &&Event| matches!(event.process, Process::Client(_));
    seen.history.iter().filter(completes).filter(of_client).filter(move |event| event.f == f)
}
