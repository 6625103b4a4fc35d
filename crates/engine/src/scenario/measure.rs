//! What an expectation can measure in a run.
//!
//! `rounds` is for contests: all clients try to acquire at once, release, and ask with `holds` before the
//! next contest, so that as many `holds` as there are clients end a contest. `rounds` of an acquire: how
//! often its client asked. A contest won in its first round is left out: the votes were not split.

use crate::run::lock_state::LockState;
use fencepost_checker::{Metric, RunVerdict};
use fencepost_history::{Event, Grant, Kind, Process, f};
use fencepost_nemesis::Trigger;
use std::collections::HashSet;

pub struct RunMeasures<'a> {
    pub verdict: &'a RunVerdict,
    pub history: &'a [Event],
    /// The client that hosts a process: `c1`, `c2`, ….
    pub client_of: &'a dyn Fn(u64) -> String,
}

impl<'a> RunMeasures<'a> {
    /// The events that fit, in order, whatever `times` the trigger says. The state of the lock is followed.
    pub(super) fn all(&self, trigger: &'a Trigger) -> impl Iterator<Item = &'a Event> {
        let client_of = self.client_of;
        let mut lock = LockState::default();
        self.history.iter().filter(move |event| {
            if trigger.is_rare() {
                lock.push(event);
            }
            lock.fits(event, trigger, client_of)
        })
    }

    /// The event for which a trigger waits, in the order of the history, and those that fit after it.
    pub(super) fn from(&self, trigger: &'a Trigger) -> impl Iterator<Item = &'a Event> {
        self.all(trigger).skip(earlier(trigger))
    }
}

/// How many events that fit a trigger come before the one that it waits for.
pub(super) fn earlier(trigger: &Trigger) -> usize {
    usize::try_from(trigger.times.saturating_sub(1)).unwrap_or(usize::MAX)
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub measure: Measure,
    pub bounds: Bounds,
    /// Name of the metric that is reported; none: the measure's own, or none is.
    pub name: Option<String>,
    pub unit: String,
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
    /// From the first such event to the next of the other kind, in seconds; or the median over each.
    Time { from: Trigger, to: Trigger, each: bool },
    /// Rounds that the winner of a contest needed; see [`super::measure`].
    Rounds { contests: usize },
}

impl Measured {
    pub(super) fn in_words(&self, value: f64) -> String {
        match &self.measure {
            Measure::Time { .. } => format!("{value:.*} s", self.digits.unwrap_or(2)),
            Measure::Count(_) | Measure::Rounds { .. } => format!("{value:.*}", self.digits.unwrap_or(0)),
            Measure::Metric(_) => format!("{value:.*}", self.digits.unwrap_or(1)),
        }
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct Measurement {
    /// What the bounds are for; none: there was nothing to measure.
    pub value: Option<f64>,
    pub values: Vec<String>,
    pub metrics: Vec<Metric>,
    /// What was measured, or why nothing was.
    pub sentence: String,
}

impl Measurement {
    fn nothing(sentence: String) -> Measurement {
        Measurement { value: None, values: Vec::new(), metrics: Vec::new(), sentence }
    }
}

pub(super) fn measure(measured: &Measured, run: &RunMeasures) -> Measurement {
    match &measured.measure {
        Measure::Metric(name) => metric(measured, name, run),
        Measure::Count(event) => {
            let count = run.all(event).count() as f64;
            whole(measured, vec![count], &event.f)
        }
        Measure::Time { from, to, each } => {
            let most = if *each { usize::MAX } else { 1 };
            time(measured, run.from(from).take(most), to, run)
        }
        Measure::Rounds { contests } => rounds(*contests, run),
    }
}

fn metric(measured: &Measured, name: &str, run: &RunMeasures) -> Measurement {
    match run.verdict.metrics.iter().find(|metric| metric.name == name) {
        None => Measurement::nothing(format!("{name}: not measured in this run")),
        Some(metric) => Measurement {
            value: Some(metric.value),
            values: vec![measured.in_words(metric.value)],
            metrics: vec![metric.clone()],
            sentence: metric.to_string(),
        },
    }
}

fn time<'a>(
    measured: &Measured,
    from: impl Iterator<Item = &'a Event>,
    to: &Trigger,
    run: &RunMeasures,
) -> Measurement {
    let fitting: Vec<&Event> = run.all(to).collect();
    let until_next = |begun: u64| {
        let next = fitting.iter().filter(|event| event.time > begun).nth(earlier(to));
        next.map_or(f64::INFINITY, |next| (next.time - begun) as f64 / 1e9)
    };
    let mut times: Vec<f64> = from.map(|event| until_next(event.time)).collect();
    times.sort_unstable_by(f64::total_cmp);
    whole(measured, times, &to.f)
}

/// The median of the values, which are sorted.
fn whole(measured: &Measured, values: Vec<f64>, what: &str) -> Measurement {
    let Some(&median) = values.get(values.len() / 2).filter(|median| median.is_finite()) else {
        return Measurement::nothing(format!("no {what} came that could be measured"));
    };
    let name = measured.name.as_deref();
    Measurement {
        value: Some(median),
        metrics: name.map(|name| Metric::new(name, median, &measured.unit)).into_iter().collect(),
        sentence: format!("{}: {}", name.unwrap_or(what), measured.in_words(median)),
        values: values.into_iter().map(|value| measured.in_words(value)).collect(),
    }
}

/// For each contest, the rounds that its first winner needed; none where no client won.
fn rounds_of_winners(contests: usize, run: &RunMeasures) -> Vec<Option<u64>> {
    let of_clients = run.history.iter().filter_map(|event| match event.process {
        Process::Client(process) => Some((process, event)),
        Process::Nemesis => None,
    });
    let names: HashSet<String> = of_clients.clone().map(|(process, _)| (run.client_of)(process)).collect();
    let clients = names.len().max(1);
    let mut winners = vec![None; contests];
    let mut over = 0;
    for (_, event) in of_clients {
        match (&*event.f, event.kind) {
            (f::HOLDS, Kind::Invoke) => over += 1,
            (f::ACQUIRE, Kind::Ok) => {
                if let Some(winner) = winners.get_mut(over / clients) {
                    *winner = winner.or(Grant::of(&event.value).rounds);
                }
            }
            _ => {}
        }
    }
    winners
}

fn rounds(contests: usize, run: &RunMeasures) -> Measurement {
    const NEVER: u64 = u64::MAX;
    let winners = rounds_of_winners(contests, run);
    let mut split: Vec<u64> = winners.into_iter().map(|rounds| rounds.unwrap_or(NEVER)).collect();
    split.retain(|rounds| *rounds > 1);
    split.sort_unstable();
    let Some(&median) = split.get(split.len() / 2) else {
        let sentence = "a client was too early in each contest: the votes were never split";
        return Measurement::nothing(sentence.to_owned());
    };
    let count = split.len();
    let began = format!("the votes were split in {count} of {contests} contests");
    let (value, metrics, sentence) = if median == NEVER {
        let lost = split.iter().filter(|rounds| **rounds == NEVER).count();
        (f64::INFINITY, Vec::new(), format!("{began}, and no client won {lost} of them within 1.5 s"))
    } else {
        let metric = Metric::new("rounds to the first acquire", median as f64, "");
        (median as f64, vec![metric], format!("{began}; the median was won in round {median}"))
    };
    Measurement { value: Some(value), values: Vec::new(), metrics, sentence }
}
