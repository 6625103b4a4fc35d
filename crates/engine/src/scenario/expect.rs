//! What is expected of a run, and whether it was observed.

use super::measure::{Measurement, measure};
use fencepost_checker::{Metric, Outcome, RunVerdict};
use fencepost_history::{Event, Process};
use fencepost_nemesis::Trigger;
use serde::Serialize;

/// What a run is compared by.
pub struct Observed<'a> {
    pub verdict: &'a RunVerdict,
    pub history: &'a [Event],
    /// The client that hosts a process: `c1`, `c2`, ….
    pub client_of: &'a dyn Fn(u64) -> String,
}

impl<'a> Observed<'a> {
    /// The events that fit, in the order of the history; `times` of the trigger does not matter.
    pub(super) fn all(&self, trigger: &'a Trigger) -> impl Iterator<Item = &'a Event> {
        let client_of = self.client_of;
        self.history.iter().filter(move |event| trigger.fits(event, client_of))
    }
}

/// What was expected, in words, whether it was observed, and what was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub expected: String,
    pub met: bool,
    pub observed: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
}

/// One expectation: conditions, all of which must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// What is expected, in a few words.
    pub about: String,
    pub(super) conditions: Vec<Condition>,
    /// What is said where all conditions hold; `{value}`, `{values}` and `{error}` stand for what was observed.
    pub(super) observed: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// The checker finds a violation of this class.
    Violation { checker: String, class: String },
    /// The checker says that its property held.
    Holds(String),
    /// No checker finds anything.
    AllHold,
    /// Something that was measured lies within bounds.
    Measured(Measured),
    /// An event came, with an error of this code where one is given.
    Event { event: Trigger, error: Option<String> },
    /// The first of each of these events came, in this order.
    Order(Vec<Trigger>),
}

/// A measure with its bounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub measure: Measure,
    pub bounds: Bounds,
    /// Name of the metric that is reported; none: the measure's own, or none is.
    pub name: Option<String>,
    /// Its unit.
    pub unit: String,
    /// Digits after the point.
    pub digits: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub above: Option<f64>,
    pub below: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Measure {
    /// A metric that the checkers give, by its name.
    Metric(String),
    /// How many such events there are.
    Count(Trigger),
    /// From the first such event to the next of the other kind, in seconds; or from each, and the median counts.
    Time { from: Trigger, to: Trigger, each: bool },
    /// Rounds that the winner of a contest needed; see [`super::measure`].
    Rounds { contests: usize },
}

/// How one condition turned out.
pub(super) struct Finding {
    pub met: bool,
    pub observed: String,
    pub metrics: Vec<Metric>,
    /// What stands for `{value}` and `{values}`, or for `{error}`.
    pub values: Vec<(&'static str, String)>,
}

impl Finding {
    fn new(met: bool, observed: impl Into<String>) -> Finding {
        Finding { met, observed: observed.into(), metrics: Vec::new(), values: Vec::new() }
    }
}

impl Expectation {
    /// Expects that no checker finds a violation.
    pub fn no_violation() -> Expectation {
        Expectation { about: "holds".to_owned(), conditions: vec![Condition::AllHold], observed: None }
    }

    /// Compares a run with the expectation.
    pub fn answer(&self, run: &Observed) -> Answer {
        let findings: Vec<Finding> = self.conditions.iter().map(|each| each.look(run)).collect();
        let met = findings.iter().all(|finding| finding.met);
        let observed = match &self.observed {
            Some(text) if met => {
                let values = findings.iter().flat_map(|finding| &finding.values);
                values.fold(text.clone(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
            }
            _ => {
                let told = findings.iter().filter(|finding| finding.met == met);
                told.map(|finding| finding.observed.as_str()).collect::<Vec<_>>().join("; ")
            }
        };
        let metrics = findings.into_iter().flat_map(|finding| finding.metrics).collect();
        Answer { expected: self.about.clone(), met, observed, metrics }
    }

    /// The events that it names.
    pub(super) fn events(&self) -> impl Iterator<Item = &Trigger> {
        self.conditions.iter().flat_map(|condition| match condition {
            Condition::Event { event, .. } => vec![event],
            Condition::Order(events) => events.iter().collect(),
            Condition::Measured(Measured { measure: Measure::Count(event), .. }) => vec![event],
            Condition::Measured(Measured { measure: Measure::Time { from, to, .. }, .. }) => vec![from, to],
            _ => Vec::new(),
        })
    }
}

impl Condition {
    /// What is expected, where the condition says so itself.
    pub(super) fn about(&self) -> Option<String> {
        match self {
            Condition::Violation { class, .. } => Some(format!("broken: {}", class.replace('-', " "))),
            Condition::Holds(checker) => Some(format!("{} holds", checker.replace('-', " "))),
            Condition::AllHold => Some("holds".to_owned()),
            Condition::Measured(_) | Condition::Event { .. } | Condition::Order(_) => None,
        }
    }

    fn look(&self, run: &Observed) -> Finding {
        match self {
            Condition::Violation { checker, class } => violation(run, checker, class),
            Condition::Holds(checker) => holds(run, checker),
            Condition::AllHold => all_hold(run),
            Condition::Measured(measured) => measured.look(run),
            Condition::Event { event, error } => came(run, event, error.as_deref()),
            Condition::Order(events) => in_order(run, events),
        }
    }
}

fn violation(run: &Observed, checker: &str, class: &str) -> Finding {
    let verdict = run.verdict.of_checker(checker);
    let finding = verdict.and_then(|verdict| verdict.findings.iter().find(|finding| finding.class == class));
    let observed = match (finding, verdict) {
        (Some(finding), _) => finding.sentence.clone(),
        (None, Some(verdict)) => verdict.summary.clone(),
        (None, None) => format!("{checker} had nothing to judge"),
    };
    Finding::new(finding.is_some(), observed)
}

fn holds(run: &Observed, checker: &str) -> Finding {
    match run.verdict.of_checker(checker) {
        Some(verdict) => Finding::new(verdict.outcome == Outcome::Valid, verdict.summary.clone()),
        None => Finding::new(false, format!("{checker} had nothing to judge")),
    }
}

fn all_hold(run: &Observed) -> Finding {
    let worst = run.verdict.verdicts.iter().find(|verdict| verdict.outcome == run.verdict.outcome);
    let met = run.verdict.outcome == Outcome::Valid;
    Finding::new(
        met,
        match worst {
            Some(_) if met => "no checker finds a violation, and the faults took effect".to_owned(),
            Some(verdict) => format!("{}: {}", verdict.checker, verdict.summary),
            None => "nothing was judged".to_owned(),
        },
    )
}

impl Measured {
    fn look(&self, run: &Observed) -> Finding {
        let Measurement { value, values, metrics, sentence } = measure(self, run);
        let Some(value) = value else { return Finding::new(false, sentence) };
        let Bounds { above, below } = self.bounds;
        let met = above.is_none_or(|above| value > above) && below.is_none_or(|below| value < below);
        let values = vec![("value", self.in_words(value)), ("values", values.join(", "))];
        Finding { met, observed: sentence, metrics, values }
    }

    /// A value with its unit.
    pub(super) fn in_words(&self, value: f64) -> String {
        match &self.measure {
            Measure::Time { .. } => format!("{value:.*} s", self.digits.unwrap_or(2)),
            Measure::Count(_) | Measure::Rounds { .. } => format!("{value:.*}", self.digits.unwrap_or(0)),
            Measure::Metric(_) => format!("{value:.*}", self.digits.unwrap_or(1)),
        }
    }
}

fn came(run: &Observed, trigger: &Trigger, error: Option<&str>) -> Finding {
    let has_code = |event: &&Event| {
        let there = event.error.as_deref().unwrap_or_default();
        error.is_none_or(|code| there == code || there.starts_with(&format!("{code}:")))
    };
    match run.all(trigger).find(has_code) {
        Some(event) => {
            let error = event.error.as_deref().unwrap_or_default().to_owned();
            let finding = Finding::new(true, format!("{} came, after {:.2} s", trigger.f, seconds(event)));
            Finding { values: vec![("error", error)], ..finding }
        }
        None => Finding::new(false, format!("no {} came that fits", trigger.f)),
    }
}

fn in_order(run: &Observed, triggers: &[Trigger]) -> Finding {
    let mut last = 0;
    for (number, trigger) in triggers.iter().enumerate() {
        let of_clients = |event: &&Event| matches!(event.process, Process::Client(_));
        match run.all(trigger).find(of_clients) {
            None => {
                return Finding::new(false, format!("the {} (event {}) never came", trigger.f, number + 1));
            }
            Some(event) if number > 0 && event.time <= last => {
                return Finding::new(
                    false,
                    format!("the {} (event {}) came too early", trigger.f, number + 1),
                );
            }
            Some(event) => last = event.time,
        }
    }
    Finding::new(true, "the events came in this order")
}

/// Time of an event since the run began.
fn seconds(event: &Event) -> f64 {
    event.time as f64 / 1e9
}
