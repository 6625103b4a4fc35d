//! `[[expect]]` as it stands in a file.

use super::event::ScenarioEvent;
use super::expect::{Condition, Expectation};
use super::measure::{Bounds, Measure, Measured};
use crate::settings::names::pick_at;
use fencepost_checker::{Checker, METRICS};
use fencepost_history::TimeSpan;
use fencepost_history::mistake::{Mistake, read_table};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::ops::Range;
use toml::Spanned;
use toml::de::DeTable;

const ALL: &str = "all";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectTable {
    about: Option<String>,
    violation: Option<ViolationTable>,
    holds: Option<Spanned<String>>,
    metric: Option<Spanned<String>>,
    count: Option<ScenarioEvent>,
    time: Option<TimeTable>,
    rounds: Option<RoundsTable>,
    event: Option<ScenarioEvent>,
    error: Option<String>,
    order: Option<Vec<ScenarioEvent>>,
    above: Option<ExpectedBound>,
    below: Option<ExpectedBound>,
    name: Option<String>,
    unit: Option<String>,
    digits: Option<usize>,
    observed: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ViolationTable {
    checker: Spanned<String>,
    class: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeTable {
    from: ScenarioEvent,
    to: ScenarioEvent,
    #[serde(default)]
    each: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundsTable {
    contests: usize,
}

const DIGITS_MAX: usize = 9;
const CONTESTS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
struct ExpectedBound(f64);

impl<'de> Deserialize<'de> for ExpectedBound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExpectedBound, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::Integer(number) => Ok(ExpectedBound(number as f64)),
            toml::Value::Float(number) => Ok(ExpectedBound(number)),
            toml::Value::String(text) => {
                let length: TimeSpan = text.parse().map_err(D::Error::custom)?;
                Ok(ExpectedBound(length.0.as_secs_f64()))
            }
            _ => Err(D::Error::custom("expected a number, or a duration such as \"8s\"")),
        }
    }
}

impl ExpectTable {
    /// Errors: an unknown key or checker, or an expectation without a condition or a text.
    pub(super) fn read(table: DeTable<'_>, span: Range<usize>) -> Result<Expectation, Mistake> {
        let table: ExpectTable = read_table(table, span.clone())?;
        let refused = |sentence: &str| Mistake::new(span.clone(), sentence);
        if table.error.is_some() && table.event.is_none() {
            return Err(refused("`error` needs `event`: the operation that ends with this error"));
        }
        let measured = table.measured(&span)?;
        let bounded = table.above.is_some() || table.below.is_some();
        match (measured.is_some(), bounded) {
            (true, false) => return Err(refused("a measure needs a bound: add `above` or `below`")),
            (false, true) => {
                return Err(refused("`above` and `below` need `metric`, `count`, `time` or `rounds`"));
            }
            _ => {}
        }
        if table.digits.is_some_and(|digits| digits > DIGITS_MAX) {
            return Err(refused(&format!("`digits` must be at most {DIGITS_MAX}")));
        }
        if table.rounds.as_ref().is_some_and(|rounds| !(1..=CONTESTS_MAX).contains(&rounds.contests)) {
            return Err(refused(&format!("`contests` must be from 1 to {CONTESTS_MAX}")));
        }
        let from_each = table.time.as_ref().filter(|time| time.each).map(|time| &time.from);
        if let Some(event) = table.count.iter().chain(from_each).find(|event| event.0.times != 1) {
            let times = event.0.times;
            return Err(refused(&format!("every such event counts here: leave out `{times} times`")));
        }
        if table.order.as_ref().is_some_and(Vec::is_empty) {
            return Err(refused("`order` names no event"));
        }
        if [table.above, table.below].into_iter().flatten().any(|bound| !bound.0.is_finite()) {
            return Err(refused("`above` and `below` must be numbers"));
        }
        let mut conditions = Vec::new();
        if let Some(ViolationTable { checker, class }) = table.violation {
            let checker = known_checker(&checker)?;
            let class = known_class(checker, &class)?;
            conditions.push(Condition::Violation { checker: checker.name.to_owned(), class });
        }
        conditions.extend(measured);
        if let Some(checker) = &table.holds {
            conditions.push(match checker.get_ref().as_str() {
                ALL => Condition::AllHold,
                _ => Condition::Holds(known_checker(checker)?.name.to_owned()),
            });
        }
        if let Some(event) = table.event {
            conditions.push(Condition::Event { event: event.0, error: table.error });
        }
        if let Some(events) = table.order {
            let events = events.into_iter().map(|event| event.0).collect();
            conditions.push(Condition::Order(events));
        }
        let about = match (table.about, &conditions[..]) {
            (_, []) => return Err(refused("it expects nothing: add `violation`, `holds` or a measure")),
            (Some(about), _) => about,
            (None, [condition]) => condition
                .about()
                .ok_or_else(|| refused("`about` is missing: say in a few words what is expected"))?,
            (None, _) => return Err(refused("`about` is missing: say in a few words what is expected")),
        };
        Ok(Expectation { about, conditions, observed: table.observed })
    }

    fn measured(&self, span: &Range<usize>) -> Result<Option<Condition>, Mistake> {
        let metric = self.metric.as_ref().map(known_metric).transpose()?;
        let count = self.count.as_ref().map(|event| Measure::Count(event.0.clone()));
        let time = self.time.as_ref().map(|TimeTable { from, to, each }| Measure::Time {
            from: from.0.clone(),
            to: to.0.clone(),
            each: *each,
        });
        let rounds = self.rounds.as_ref().map(|rounds| Measure::Rounds { contests: rounds.contests });
        let mut measures = [metric, count, time, rounds].into_iter().flatten();
        let Some(measure) = measures.next() else { return Ok(None) };
        if measures.next().is_some() {
            let sentence = "an expectation measures one thing: `metric`, `count`, `time` or `rounds`";
            return Err(Mistake::new(span.clone(), sentence));
        }
        let bounds =
            Bounds { above: self.above.map(|bound| bound.0), below: self.below.map(|bound| bound.0) };
        let seconds = self.time.as_ref().map(|_| "s".to_owned());
        let (name, unit) = (self.name.clone(), self.unit.clone().or(seconds).unwrap_or_default());
        Ok(Some(Condition::Measured(Measured { measure, bounds, name, unit, digits: self.digits })))
    }
}

/// The class, if this checker finds it: an expectation of another is never met.
fn known_class(checker: &Checker, name: &Spanned<String>) -> Result<String, Mistake> {
    let what = format!("class of {}", checker.name);
    pick_at(&what, name, checker.classes, |class| class.name).map(|class| class.name.to_owned())
}

/// The metric, if a run can have it: one of another name is never measured.
fn known_metric(name: &Spanned<String>) -> Result<Measure, Mistake> {
    pick_at("metric", name, METRICS, |metric| metric).map(|metric| Measure::Metric(metric.to_owned()))
}

fn known_checker(name: &Spanned<String>) -> Result<&'static Checker, Mistake> {
    pick_at("checker", name, fencepost_checker::registry(), |checker| checker.name)
}
