//! Smaller schedules: what can be left out of one, or made less.

use super::round;
use crate::schedule::Schedule;
use fencepost_engine::RunSpec;
use fencepost_history::{FaultStage, Kind, TimeSpan, f, once};
use fencepost_nemesis::{Plan, PlannedFault, Trigger};
use serde_json::Value;
use std::collections::BTreeMap;

/// A lock that is made for several servers keeps at least so many: with one, it is another lock.
const SERVERS_MIN: usize = 3;

pub(super) fn with_faults(schedule: &Schedule, faults: Vec<PlannedFault>) -> Schedule {
    let plan = Plan { swarm: Vec::new(), faults };
    Schedule { plan, ..schedule.clone() }
}

pub(super) const CHANCES: u64 = 3;

/// The schedule, longer, with its only fault several times; none if there are others, or if it waits.
pub(super) fn repeated(schedule: &Schedule) -> Option<Schedule> {
    let [fault] = &schedule.plan.faults[..] else { return None };
    if fault.when.is_some() {
        return None;
    }
    let limit_ms = schedule.options.time_limit.millis();
    let again = |number: u64| PlannedFault { at_ms: fault.at_ms + number * limit_ms, ..fault.clone() };
    let mut longer = with_faults(schedule, (0..CHANCES).map(again).collect());
    longer.options.time_limit = TimeSpan::from_millis(CHANCES * limit_ms);
    Some(longer)
}

pub(super) fn with_fault(of: &Schedule, number: usize, change: impl FnOnce(&mut PlannedFault)) -> Schedule {
    let mut changed = of.clone();
    change(&mut changed.plan.faults[number]);
    changed
}

pub(super) fn ended_by(schedule: &Schedule, limit_ms: u64) -> Schedule {
    let faults = schedule.plan.faults.iter().filter(|fault| fault.at_ms < limit_ms).cloned().collect();
    let mut ended = with_faults(schedule, faults);
    ended.options.time_limit = TimeSpan::from_millis(limit_ms);
    ended
}

/// The schedule with other numbers of clients and processes; faults move to the first names left.
pub(super) fn with_clients(schedule: &Schedule, clients: usize, processes: usize) -> Option<Schedule> {
    let renamed = renamed(schedule, 'c', clients)?;
    let mut smaller = with_faults(schedule, renamed);
    smaller.options.clients = clients;
    smaller.options.concurrency = processes;
    smaller.options.readers = smaller.options.readers.min(processes.saturating_sub(1));
    // With as many permits as processes no process would ever wait.
    let most = u32::try_from(processes.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
    smaller.options.permits = smaller.options.permits.map(|permits| permits.min(most));
    Some(smaller)
}

/// Numbers of clients and processes to try, the least first.
pub(super) fn fewer_clients(schedule: &Schedule) -> Vec<(usize, usize)> {
    let (clients, processes) = (schedule.options.clients, schedule.options.concurrency);
    let tries = [(2, 2), (2, 4), (3, 3), (clients, clients)];
    let smaller = |tried: &(usize, usize)| tried.0 <= clients && tried.1 < processes;
    tries.into_iter().filter(smaller).collect()
}

pub(super) fn with_servers(schedule: &Schedule, servers: usize) -> Option<Schedule> {
    let mut smaller = with_faults(schedule, renamed(schedule, 'n', servers)?);
    smaller.options.lock_options.nodes = Some(servers);
    Some(smaller)
}

/// Numbers of servers to try, the least first: odd ones, so that a majority stays one more than half.
pub(super) fn fewer_servers(schedule: &Schedule) -> Vec<usize> {
    let Ok(spec) = RunSpec::with_plan(schedule.options.clone(), Plan::default()) else { return Vec::new() };
    let now = spec.topology.servers.len();
    let least = spec.lock.service.default_nodes().min(SERVERS_MIN);
    (least..now).filter(|count| count % 2 == 1).collect()
}

/// The faults with the nodes of a letter (`c3`, `n5`) renamed to the first `count`; none if they name more.
fn renamed(schedule: &Schedule, letter: char, count: usize) -> Option<Vec<PlannedFault>> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let faults = &schedule.plan.faults;
    let mut texts: Vec<String> = faults.iter().flat_map(|fault| words(&serde_json::json!(fault))).collect();
    texts.retain(|text| is_node(text, letter));
    texts.sort_by_key(|name| name[1..].parse::<usize>().unwrap_or(usize::MAX));
    for text in texts {
        let next = names.len() + 1;
        names.entry(text).or_insert_with(|| format!("{letter}{next}"));
    }
    if names.len() > count {
        return None;
    }
    let highest = names.keys().filter_map(|name| name[1..].parse::<usize>().ok()).max().unwrap_or(0);
    if highest <= count {
        return Some(faults.clone());
    }
    let rename = |fault: &PlannedFault| {
        let mut value = serde_json::json!(fault);
        replace(&mut value, &names);
        serde_json::from_value(value).ok()
    };
    faults.iter().map(rename).collect()
}

fn is_node(text: &str, letter: char) -> bool {
    text.strip_prefix(letter).is_some_and(|number| number.parse::<usize>().is_ok())
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_ascii_alphanumeric())
}

fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => split(text).map(str::to_owned).collect(),
        Value::Array(items) => items.iter().flat_map(words).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| split(key).map(str::to_owned).chain(words(value)).collect::<Vec<_>>())
            .collect(),
        _ => Vec::new(),
    }
}

fn replace(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            let mut replaced = String::new();
            let mut word = String::new();
            let flush = |word: &mut String, replaced: &mut String| {
                replaced.push_str(names.get(word.as_str()).unwrap_or(word));
                word.clear();
            };
            for sign in text.chars() {
                if sign.is_ascii_alphanumeric() {
                    word.push(sign);
                } else {
                    flush(&mut word, &mut replaced);
                    replaced.push(sign);
                }
            }
            flush(&mut word, &mut replaced);
            *text = replaced;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, names)),
        Value::Object(fields) => {
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(key, mut value)| {
                    replace(&mut value, names);
                    (names.get(&key).cloned().unwrap_or(key), value)
                })
                .collect();
        }
        _ => {}
    }
}

/// Whether the parameters name nodes, so that targets cannot be left out by themselves.
pub(super) fn names_nodes(fault: &PlannedFault) -> bool {
    let parameters = Value::Object(fault.parameters.clone());
    let words = words(&parameters);
    words.iter().any(|word| is_node(word, 'c') || is_node(word, 'n') || fault.on.contains(word))
}

/// Events that a fault can wait for: the moment that its plan names already, then those at which most locks
/// are broken. Later faults can also follow an earlier one at the same distance.
pub(super) fn triggers(schedule: &Schedule, number: usize) -> Vec<(Trigger, u64)> {
    let fault = &schedule.plan.faults[number];
    if fault.when.is_some() {
        return Vec::new();
    }
    let mut triggers: Vec<(Trigger, u64)> = fault.then.iter().map(|then| (then.clone(), 0)).collect();
    let earlier = schedule.plan.faults.iter().rfind(|other| other.at_ms < fault.at_ms);
    if let Some(earlier) = earlier {
        let injected = Trigger { stage: Some(FaultStage::Inject), ..Trigger::of(&earlier.fault) };
        triggers.push((injected, round::two_digits_up(fault.at_ms - earlier.at_ms)));
    }
    triggers.push((Trigger::of(f::ACQUIRE), 0));
    triggers.push((Trigger::of(f::READ), 0));
    triggers.push((Trigger::of(f::RELEASE).with_kind(Kind::Invoke), 0));
    once(triggers)
}

pub(super) fn with_trigger(schedule: &Schedule, number: usize, trigger: &(Trigger, u64)) -> Schedule {
    with_fault(schedule, number, |fault| {
        fault.at_ms = trigger.1;
        fault.then = None;
        fault.when = Some(trigger.0.clone());
    })
}

/// The numbers of a fault that can be made less: its length, and its parameters.
pub(super) fn numbers(fault: &PlannedFault) -> Vec<(String, u64)> {
    let length = std::iter::once((LENGTH.to_owned(), fault.for_ms));
    let parameters = fault.parameters.iter().filter_map(|(name, value)| {
        let magnitude = value.as_u64().or_else(|| value.as_i64().map(i64::unsigned_abs))?;
        Some((name.clone(), magnitude))
    });
    length.chain(parameters).collect()
}

const LENGTH: &str = "for_ms";

pub(super) fn set_number(fault: &mut PlannedFault, name: &str, magnitude: u64) {
    if name == LENGTH {
        fault.for_ms = magnitude;
        return;
    }
    if let Some(value) = fault.parameters.get_mut(name) {
        let negative = value.as_i64().is_some_and(|number| number < 0);
        let signed = i64::try_from(magnitude).unwrap_or(i64::MAX);
        *value = if negative { (-signed).into() } else { magnitude.into() };
    }
}

pub(super) fn rounded(schedule: &Schedule) -> Schedule {
    let mut rounded = schedule.clone();
    for fault in &mut rounded.plan.faults {
        fault.at_ms = round::two_digits_up(fault.at_ms);
        for (name, magnitude) in numbers(fault) {
            set_number(fault, &name, round::two_digits_up(magnitude));
        }
    }
    let limit = rounded.options.time_limit.millis();
    rounded.options.time_limit = TimeSpan::from_millis(round::two_digits_up(limit));
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_engine::RunOptions;

    fn schedule(plan: &str) -> Schedule {
        let options = RunOptions { seed: Some(fencepost_history::Seed(1)), ..RunOptions::default() };
        Schedule::new(options, toml::from_str(plan).unwrap())
    }

    const TWO: &str = r#"
        [[fault]]
        at_ms = 1234
        for_ms = 900
        fault = "pause"
        on = ["c4"]
        [[fault]]
        at_ms = 3000
        for_ms = 800
        fault = "clock-jump"
        on = ["n2", "n5"]
        wall_ms = -30123
    "#;

    #[test]
    fn nodes_keep_their_faults_under_the_first_names() {
        let smaller = with_clients(&schedule(TWO), 2, 2).unwrap();
        assert_eq!(smaller.plan.faults[0].on, ["c1"]);
        assert!(smaller.spec().is_ok());
        let smaller = with_servers(&schedule(TWO), 3).unwrap();
        assert_eq!(smaller.plan.faults[1].on, ["n1", "n2"]);
        assert_eq!(smaller.options.lock_options.nodes, Some(3));
        assert!(with_servers(&schedule(TWO), 1).is_none());
        assert_eq!(fewer_servers(&schedule(TWO)), [3]);
        assert_eq!(fewer_clients(&schedule(TWO)), [(2, 2), (2, 4), (3, 3), (5, 5)]);
    }

    #[test]
    fn a_fault_gets_several_chances() {
        let one = ended_by(&schedule(TWO), 2000);
        let often = repeated(&one).unwrap();
        let times: Vec<u64> = often.plan.faults.iter().map(|fault| fault.at_ms).collect();
        assert_eq!((times, often.options.time_limit.millis()), (vec![1234, 3234, 5234], 6000));
        assert!(often.spec().is_ok() && repeated(&often).is_none());
    }

    #[test]
    fn names_in_parameters_are_renamed_too() {
        let partition = r#"
            [[fault]]
            at_ms = 1
            for_ms = 900
            fault = "partition"
            on = ["c3"]
            groups = [["c3"], ["n4", "n5"]]
        "#;
        let smaller = with_servers(&schedule(partition), 3).unwrap();
        let smaller = with_clients(&smaller, 2, 2).unwrap();
        let fault = &smaller.plan.faults[0];
        assert_eq!(fault.parameters["groups"], serde_json::json!([["c1"], ["n1", "n2"]]));
        assert!(names_nodes(fault) && smaller.spec().is_ok());
        assert!(!names_nodes(&schedule(TWO).plan.faults[1]));
    }

    #[test]
    fn numbers_keep_their_sign_and_become_round() {
        let rounded = rounded(&schedule(TWO));
        let fault = &rounded.plan.faults[1];
        assert_eq!(numbers(fault), [("for_ms".to_owned(), 800), ("wall_ms".to_owned(), 31_000)]);
        assert_eq!(fault.parameters["wall_ms"], -31_000);
        assert_eq!(rounded.plan.faults[0].at_ms, 1300);
    }

    #[test]
    fn a_later_fault_can_follow_an_earlier_one() {
        let (trigger, after_ms) = triggers(&schedule(TWO), 1).remove(0);
        assert_eq!((trigger.f.as_str(), after_ms), ("pause", 1800));
        let changed = with_trigger(&schedule(TWO), 1, &(trigger, after_ms));
        assert!(changed.spec().is_ok());
        assert!(triggers(&changed, 1).is_empty());
    }
}
