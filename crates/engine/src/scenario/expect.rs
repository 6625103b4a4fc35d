//! What is expected of a run, and whether it was observed.

use super::measure::{Bounds, Measure, Measured, Measurement, RunMeasures, earlier, measure};
use fencepost_checker::{Metric, Outcome};
use fencepost_history::{Event, Kind, Process};
use fencepost_nemesis::Trigger;
use serde::{Deserialize, Serialize};

/// What was expected, in words, whether it was observed, and what was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectationAnswer {
    pub expected: String,
    pub met: bool,
    pub observed: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
}

/// One expectation: conditions, all of which must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    pub about: String,
    pub(super) conditions: Vec<Condition>,
    /// The sentence where all conditions hold, with `{value}`, `{values}` and `{error}`.
    pub(super) observed: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a scenario has a handful of them")]
pub(super) enum Condition {
    /// The checker finds a violation of this class.
    Violation {
        checker: String,
        class: String,
    },
    /// The checker says that its property held.
    Holds(String),
    AllHold,
    /// Something that was measured lies within bounds.
    Measured(Measured),
    /// An event came, with an error of this code where one is given.
    Event {
        event: Trigger,
        error: Option<String>,
    },
    /// The first of each of these events came, in this order.
    Order(Vec<Trigger>),
}

pub(super) struct MeasuredExpectation {
    pub met: bool,
    pub observed: String,
    pub metrics: Vec<Metric>,
    /// What stands for `{value}` and `{values}`, or for `{error}`.
    pub values: Vec<(&'static str, String)>,
}

impl MeasuredExpectation {
    fn new(met: bool, observed: impl Into<String>) -> MeasuredExpectation {
        MeasuredExpectation { met, observed: observed.into(), metrics: Vec::new(), values: Vec::new() }
    }
}

impl Expectation {
    pub fn no_violation() -> Expectation {
        Expectation { about: "holds".to_owned(), conditions: vec![Condition::AllHold], observed: None }
    }

    pub fn answer(&self, run: &RunMeasures) -> ExpectationAnswer {
        let findings: Vec<MeasuredExpectation> = self.conditions.iter().map(|each| each.look(run)).collect();
        let met = findings.iter().all(|finding| finding.met);
        let observed = match &self.observed {
            Some(text) if met => {
                let values = findings.iter().flat_map(|finding| &finding.values);
                values.fold(text.clone(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
            }
            _ => {
                let counting = findings.iter().filter(|finding| finding.met == met);
                counting.map(|finding| finding.observed.as_str()).collect::<Vec<_>>().join("; ")
            }
        };
        let metrics = findings.into_iter().flat_map(|finding| finding.metrics).collect();
        ExpectationAnswer { expected: self.about.clone(), met, observed, metrics }
    }

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
    pub(super) fn about(&self) -> Option<String> {
        match self {
            Condition::Violation { class, .. } => Some(format!("broken: {}", class.replace('-', " "))),
            Condition::Holds(checker) => Some(format!("{} holds", checker.replace('-', " "))),
            Condition::AllHold => Some("holds".to_owned()),
            Condition::Measured(_) | Condition::Event { .. } | Condition::Order(_) => None,
        }
    }

    fn look(&self, run: &RunMeasures) -> MeasuredExpectation {
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

fn violation(run: &RunMeasures, checker: &str, class: &str) -> MeasuredExpectation {
    let verdict = run.verdict.of_checker(checker);
    let finding =
        verdict.and_then(|verdict| verdict.findings.iter().find(|finding| finding.is_of_class(class)));
    let observed = match (finding, verdict) {
        (Some(finding), _) => finding.sentence.clone(),
        (None, Some(verdict)) => verdict.summary.clone(),
        (None, None) => format!("{checker} had nothing to judge"),
    };
    MeasuredExpectation::new(finding.is_some(), observed)
}

fn holds(run: &RunMeasures, checker: &str) -> MeasuredExpectation {
    match run.verdict.of_checker(checker) {
        Some(verdict) => MeasuredExpectation::new(verdict.outcome == Outcome::Valid, verdict.summary.clone()),
        None => MeasuredExpectation::new(false, format!("{checker} had nothing to judge")),
    }
}

fn all_hold(run: &RunMeasures) -> MeasuredExpectation {
    let worst = run.verdict.verdicts.iter().find(|verdict| verdict.outcome == run.verdict.outcome);
    let met = run.verdict.outcome == Outcome::Valid;
    MeasuredExpectation::new(
        met,
        match worst {
            Some(_) if met => "no checker finds a violation, and the faults took effect".to_owned(),
            Some(verdict) => format!("{}: {}", verdict.checker, verdict.summary),
            None => "nothing was judged".to_owned(),
        },
    )
}

impl Measured {
    fn look(&self, run: &RunMeasures) -> MeasuredExpectation {
        let Measurement { value, values, metrics, sentence } = measure(self, run);
        let Some(value) = value else { return MeasuredExpectation::new(false, sentence) };
        let Bounds { above, below } = self.bounds;
        let met = above.is_none_or(|above| value > above) && below.is_none_or(|below| value < below);
        let values = vec![("value", self.in_words(value)), ("values", values.join(", "))];
        MeasuredExpectation { met, observed: sentence, metrics, values }
    }
}

fn came(run: &RunMeasures, trigger: &Trigger, error: Option<&str>) -> MeasuredExpectation {
    // An operation that ends with an error has failed, or its outcome is unknown; both count.
    let kinds: &[Option<Kind>] = match error {
        Some(_) => &[Some(Kind::Fail), Some(Kind::Info)],
        None => &[trigger.kind],
    };
    let has_code = |event: &&Event| {
        error.is_none_or(|code| event.error.as_ref().is_some_and(|error| error.code_name() == code))
    };
    let triggers: Vec<Trigger> =
        kinds.iter().map(|kind| Trigger { kind: *kind, ..trigger.clone() }).collect();
    let mut fitting: Vec<&Event> =
        triggers.iter().flat_map(|trigger| run.all(trigger).filter(has_code)).collect();
    fitting.sort_by_key(|event| event.index);
    match fitting.get(earlier(trigger)) {
        Some(event) => {
            let error = event.error.as_deref().unwrap_or_default().to_owned();
            let finding =
                MeasuredExpectation::new(true, format!("{} came, after {:.2} s", trigger.f, seconds(event)));
            MeasuredExpectation { values: vec![("error", error)], ..finding }
        }
        None => MeasuredExpectation::new(false, format!("no {} came that fits", trigger.f)),
    }
}

fn in_order(run: &RunMeasures, triggers: &[Trigger]) -> MeasuredExpectation {
    let mut last = 0;
    for (number, trigger) in triggers.iter().enumerate() {
        let of_clients = |event: &&Event| matches!(event.process, Process::Client(_));
        match run.from(trigger).find(of_clients) {
            None => {
                return MeasuredExpectation::new(
                    false,
                    format!("the {} (event {}) never came", trigger.f, number + 1),
                );
            }
            Some(event) if number > 0 && event.time <= last => {
                return MeasuredExpectation::new(
                    false,
                    format!("the {} (event {}) came too early", trigger.f, number + 1),
                );
            }
            Some(event) => last = event.time,
        }
    }
    MeasuredExpectation::new(true, "the events came in this order")
}

fn seconds(event: &Event) -> f64 {
    event.time as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::super::expect_table::ExpectTable;
    use super::*;
    use fencepost_checker::RunVerdict;
    use serde_json::{Value, json};
    use toml::de::DeTable;

    /// An event of client 1 (process 0), client 2 (process 1), and so on, at this second.
    fn event(second: u64, process: u64, f: &str, kind: Kind, value: Value) -> Event {
        let process = Process::Client(process);
        let time = second * 1_000_000_000;
        Event { index: 0, time, process, kind, f: f.into(), key: None, value: value.into(), error: None }
    }

    /// Client 1 acquires and releases, client 2 fails once, and acquires 3 s after it began.
    fn history() -> Vec<Event> {
        vec![
            event(1, 0, "acquire", Kind::Ok, json!({"rounds": 1})),
            event(2, 1, "acquire", Kind::Invoke, Value::Null),
            event(3, 1, "acquire", Kind::Fail, Value::Null),
            event(4, 0, "release", Kind::Ok, Value::Null),
            event(5, 1, "acquire", Kind::Ok, json!({"rounds": 4})),
        ]
    }

    fn answer_with(expectation: &str, history: &[Event], metrics: Vec<Metric>) -> ExpectationAnswer {
        let table = DeTable::parse(expectation).unwrap();
        let expectation = ExpectTable::read(table.get_ref().clone(), 0..0).unwrap();
        let verdict = RunVerdict { metrics, ..RunVerdict::of(Vec::new()) };
        let client_of = |process: u64| format!("c{}", process + 1);
        expectation.answer(&RunMeasures { verdict: &verdict, history, client_of: &client_of })
    }

    fn answer(expectation: &str) -> ExpectationAnswer {
        answer_with(expectation, &history(), Vec::new())
    }

    #[test]
    fn a_time_lies_within_its_bounds_or_does_not() {
        let time = "about = 'late'\ntime = { from = 'c2 begins acquire', to = 'c2 acquire' }\nname = 'time'\nobserved = 'after {value}'\n";
        let late = answer(&format!("{time}above = '2s'"));
        assert_eq!((late.met, late.observed.as_str()), (true, "after 3.00 s"));
        assert_eq!(late.metrics, [Metric::new("time", 3.0, "s")]);
        assert!(!answer(&format!("{time}below = '3s'")).met);
    }

    #[test]
    fn the_median_of_several_times_counts() {
        let each = "about = 'x'\ntime = { from = 'any acquire', to = 'c2 acquire', each = true }\nbelow = '5s'\nobserved = '{values}'";
        // The last acquire has no acquire of client 2 after it: what never came is the longest time of all.
        let open = answer(each);
        assert!(!open.met, "{}", open.observed);
        let first = answer("about = 'x'\ntime = { from = 'any acquire', to = 'c2 acquire' }\nbelow = '5s'");
        assert!(first.met, "{}", first.observed);
    }

    #[test]
    fn events_are_counted() {
        let counted = answer("about = 'x'\ncount = 'any acquire'\nabove = 1\nobserved = '{value} times'");
        assert_eq!((counted.met, counted.observed.as_str()), (true, "2 times"));
        assert!(!answer("about = 'x'\ncount = 'any acquire'\nabove = 2").met);
    }

    #[test]
    fn an_operation_that_ended_with_an_error_is_found_whether_it_failed_or_is_unknown() {
        let gone =
            "about = 'x'\nevent = { f = 'write' }\nerror = 'client-gone'\nobserved = 'ended with: {error}'";
        for kind in [Kind::Fail, Kind::Info] {
            let error = Some("client-gone: client c1 ended".into());
            let history = [Event { error, ..event(1, 0, "write", kind, Value::Null) }];
            let found = answer_with(gone, &history, Vec::new());
            assert_eq!(
                (found.met, found.observed.as_str()),
                (true, "ended with: client-gone: client c1 ended")
            );
        }
        let other =
            [Event { error: Some("timeout".into()), ..event(1, 0, "write", Kind::Info, Value::Null) }];
        assert!(!answer_with(gone, &other, Vec::new()).met);
    }

    #[test]
    fn an_order_of_events_is_looked_for() {
        assert!(answer("about = 'x'\norder = ['c1 acquire', 'c1 release', 'c2 acquire']").met);
        let wrong = answer("about = 'x'\norder = ['c2 acquire', 'c1 release']");
        assert_eq!((wrong.met, wrong.observed.as_str()), (false, "the release (event 2) came too early"));
        assert!(answer("about = 'x'\norder = ['c1 acquire', 'c2 release']").observed.contains("never came"));
    }

    /// Client 1 holds for 0.9 s, is waited for, and releases; then client 2 acquires for 0.1 s.
    fn sections() -> Vec<Event> {
        let asked = |second, process, hold_ms: u64| {
            event(
                second,
                process,
                "acquire",
                Kind::Invoke,
                json!({"hold_ms": hold_ms, "write_at_ms": hold_ms / 2}),
            )
        };
        let of = |second, process, f, kind| event(second, process, f, kind, Value::Null);
        vec![
            asked(1, 0, 900),
            of(2, 0, "acquire", Kind::Ok),
            asked(3, 1, 100),
            of(4, 0, "release", Kind::Invoke),
            of(5, 0, "release", Kind::Ok),
            of(6, 1, "acquire", Kind::Ok),
            of(7, 1, "release", Kind::Invoke),
            of(8, 1, "release", Kind::Ok),
            asked(9, 0, 100),
            of(10, 0, "acquire", Kind::Ok),
        ]
    }

    fn in_sections(conditions: &str) -> ExpectationAnswer {
        answer_with(&format!("about = 'x'\n{conditions}"), &sections(), Vec::new())
    }

    #[test]
    fn an_event_is_expected_as_often_as_it_says() {
        let met = |conditions: &str| in_sections(conditions).met;
        assert!(met("event = 'c1 acquire 2 times'") && !met("event = 'c2 acquire 2 times'"));
        assert!(met("event = 'any acquire 3 times'") && !met("event = 'any acquire 4 times'"));
        assert!(met("order = ['any acquire 2 times', 'any acquire 3 times']"));
        assert!(!met("order = ['any acquire 3 times', 'c2 release']"));
        assert!(met(
            "time = { from = 'any acquire 2 times', to = 'any acquire' }\nabove = '3s'\nbelow = '5s'"
        ));
        assert!(met(
            "time = { from = 'c1 acquire', to = 'any acquire 2 times' }\nabove = '7s'\nbelow = '9s'"
        ));
    }

    #[test]
    fn the_section_and_the_state_of_the_lock_count_in_every_condition() {
        let met = |conditions: &str| in_sections(conditions).met;
        let acquire = |rest: &str| format!("{{ f = 'acquire', {rest} }}");
        let (long, longer) = (acquire("section-ms = 500"), acquire("section-ms = 1000"));
        assert!(met(&format!("event = {long}")) && !met(&format!("event = {longer}")));
        assert!(met(&format!("count = {long}\nbelow = 2")) && met(&format!("count = {longer}\nbelow = 1")));
        let late = acquire("write-ms = 400");
        assert!(met(&format!("count = {late}\nbelow = 2")));
        assert!(!met(&format!("order = [{longer}]")));
        let free = acquire("type = 'invoke', free = true");
        assert!(
            met(&format!("count = {free}\nabove = 1\nbelow = 3")),
            "{:?}",
            in_sections(&format!("count = {free}\nabove = 1"))
        );
        assert!(met(&format!("order = [{free}, 'c1 acquire']")));
        assert!(!met(&format!("event = {}", acquire("type = 'invoke', client = 'c2', free = true"))));
    }

    #[test]
    fn where_every_event_counts_a_number_of_times_is_refused() {
        let read = |text: &str| {
            let table = DeTable::parse(text).unwrap();
            ExpectTable::read(table.get_ref().clone(), 0..0).unwrap_err().sentence
        };
        let counted = read("about = 'x'\ncount = 'any acquire 2 times'\nabove = 1");
        assert!(counted.contains("every such event counts here: leave out `2 times`"), "{counted}");
        let each = "time = { from = 'any acquire 2 times', to = 'c2 acquire', each = true }";
        assert!(read(&format!("about = 'x'\n{each}\nbelow = '5s'")).contains("leave out"));
    }

    #[test]
    fn a_metric_is_found_by_its_name_and_another_condition_can_stand_beside_it() {
        let herd = "about = 'x'\nmetric = 'wake-ups a release'\nbelow = 1.1\n";
        let metrics = vec![Metric::new("wake-ups a release", 1.0, "")];
        assert!(answer_with(herd, &history(), metrics.clone()).met);
        let both = answer_with(&format!("{herd}holds = 'fencing'"), &history(), metrics);
        assert_eq!((both.met, both.observed.as_str()), (false, "fencing had nothing to judge"));
        assert!(answer(herd).observed.contains("not measured"));
    }

    #[test]
    fn rounds_are_those_of_the_winners_of_contests_with_split_votes() {
        let holds = |second, process| event(second, process, "holds", Kind::Invoke, Value::Null);
        let won = |second, rounds| event(second, 0, "acquire", Kind::Ok, json!({"rounds": rounds}));
        // Two clients: the first contest is won in round 5, the second at once, and the third by no client.
        let history = [
            won(1, 5),
            holds(2, 0),
            holds(2, 1),
            won(3, 1),
            holds(4, 0),
            holds(4, 1),
            holds(6, 0),
            holds(6, 1),
        ];
        let many = answer_with("about = 'x'\nrounds = { contests = 2 }\nabove = 3", &history, Vec::new());
        assert!(
            many.met && many.observed.contains("split in 1 of 2 contests; the median was won in round 5")
        );
        let lost = answer_with("about = 'x'\nrounds = { contests = 3 }\nbelow = 4", &history, Vec::new());
        assert!(!lost.met && lost.observed.contains("no client won 1 of them"), "{}", lost.observed);
    }
}
