//! Writes a scenario file: a workload with a seed and faults, and the violation that it shows.

use super::{event, fault};
use crate::options::RunOptions;
use fencepost_history::TimeSpan;
use fencepost_nemesis::{Groups, OneWay, Plan, PlannedFault, Trigger};
use serde_json::{Map, Value};
use std::fmt::Write;

/// Options that a scenario says whatever the defaults are, so that another version plays the same.
const ALWAYS: [&str; 7] = ["lock", "seed", "ttl", "clients", "concurrency", "keys", "time-limit"];

/// Options that are no part of a scenario, or that only shape how faults are drawn.
const LEFT_OUT: [&str; 11] = [
    "scenario",
    "driver",
    "nemesis",
    "nemesis-file",
    "nemesis-interval",
    "clock",
    "clock-amplitude",
    "clock-drift-ppm",
    "restart-after",
    "torn-writes",
    "partition",
];

/// The file of a scenario whose clients follow their workload. It expects that this checker finds a violation of this
/// class.
pub fn scenario_text(
    about: &str,
    source: &str,
    options: &RunOptions,
    plan: &Plan,
    violation: (&str, &str),
) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "about = {}", value(&Value::from(about)));
    let _ = writeln!(text, "source = {}\n", value(&Value::from(source)));
    for (name, option) in needed_options(&options.clone().without_unused(&plan.nemeses())) {
        let _ = writeln!(text, "{name} = {}", value(&option));
    }
    for fault in &plan.faults {
        text.push_str("\n[[fault]]\n");
        for (key, content) in fault_keys(fault) {
            let _ = writeln!(text, "{key} = {content}");
        }
    }
    let (checker, class) = violation;
    let (checker, class) = (value(&checker.into()), value(&class.into()));
    let _ = writeln!(text, "\n[expect]\nviolation = {{ checker = {checker}, class = {class} }}");
    text
}

/// The options that a scenario needs: those that every scenario says, then those that differ from the defaults.
fn needed_options(options: &RunOptions) -> Vec<(String, Value)> {
    let fields = |options: &RunOptions| match serde_json::to_value(options) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("options are always a table"),
    };
    let (given, default) = (fields(options), fields(&RunOptions::default()));
    let always = ALWAYS.iter().filter_map(|&name| Some((name.to_owned(), given.get(name)?.clone())));
    let differs = |(name, option): &(&String, &Value)| {
        !ALWAYS.contains(&name.as_str())
            && !LEFT_OUT.contains(&name.as_str())
            && !option.is_null()
            && default.get(*name) != Some(option)
    };
    let others = given.iter().filter(differs).map(|(name, option)| (name.clone(), option.clone()));
    always.chain(others).collect()
}

/// The keys of a fault, in the order in which it happens.
fn fault_keys(fault: &PlannedFault) -> Vec<(String, String)> {
    let length = |ms| quoted(&TimeSpan::from_millis(ms).to_string());
    let mut keys: Vec<(String, String)> = Vec::new();
    let mut key = |name: &str, content: String| keys.push((name.to_owned(), content));
    if let Some(when) = &fault.when {
        key("when", trigger(when));
    }
    if fault.at_ms > 0 {
        key("after", length(fault.at_ms));
    }
    if let Some(then) = &fault.then {
        key("then", trigger(then));
    }
    key("fault", quoted(&fault.fault));
    key("on", value(&serde_json::json!(fault.on)));
    let mut parameters = fault.parameters.clone();
    if let Some(groups) = groups(&mut parameters) {
        key("groups", quoted(&groups));
    }
    for (name, parameter) in &parameters {
        match (name.strip_suffix("_ms"), parameter.as_i64()) {
            (Some(name), Some(ms)) => {
                let sign = if ms < 0 { "-" } else { "" };
                let length = TimeSpan::from_millis(ms.unsigned_abs());
                key(name, quoted(&format!("{sign}{length}")));
            }
            _ => key(name, value(parameter)),
        }
    }
    if let Some(until) = &fault.until {
        key("until", trigger(until));
    }
    key("for", length(fault.for_ms));
    keys
}

/// Takes the groups of a partition out of its parameters, as the text that a scenario has for them.
fn groups(parameters: &mut Map<String, Value>) -> Option<String> {
    parameters.get(fault::GROUPS)?;
    let named = [fault::GROUPS, "one_way"];
    let own: Map<String, Value> =
        named.iter().filter_map(|name| Some(((*name).to_owned(), parameters.get(*name)?.clone()))).collect();
    let Groups { groups, one_way, .. } = serde_json::from_value(Value::Object(own)).ok()?;
    let separator = match one_way {
        Some(OneWay::ToFirst) => "<",
        Some(OneWay::ToSecond) => ">",
        None => "|",
    };
    named.iter().for_each(|name| drop(parameters.remove(*name)));
    let groups: Vec<String> = groups.iter().map(|group| group.join(",")).collect();
    Some(groups.join(separator))
}

/// An event as a text where there is one for it, else as a table.
fn trigger(trigger: &Trigger) -> String {
    match event::text(trigger) {
        Some(text) => quoted(&text),
        None => value(&serde_json::json!(trigger)),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A value in TOML, on one line.
fn value(json: &Value) -> String {
    match json {
        Value::Null => quoted(""),
        Value::Bool(_) | Value::Number(_) => json.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(value).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, field)| !field.is_null());
            let fields = fields.map(|(name, field)| format!("{} = {}", name_of(name), value(field)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A key as TOML takes it.
fn name_of(name: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_".contains(sign);
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use super::super::file::parse;
    use super::*;
    use crate::validation::RunSpec;
    use fencepost_history::Seed;

    const PLAN: &str = r#"
[[fault]]
for_ms = 2000
fault = "clock-jump"
on = ["n2", "n4"]
when = { f = "acquire", type = "ok" }
wall_ms = -30000

[[fault]]
at_ms = 1500
for_ms = 800
fault = "pause"
on = ["c1"]
when = { f = "clock-jump", type = "ok", stage = "inject" }
then = { f = "acquire", type = "ok", granted-by = "n2" }

[[fault]]
at_ms = 3000
for_ms = 700
fault = "partition"
on = ["c1"]
groups = [["c1"], ["n4", "n5"]]
one_way = "to-second"
"#;

    #[test]
    fn a_scenario_is_read_as_it_was_written() {
        let mut options = RunOptions {
            seed: Some(Seed(42)),
            ttl: TimeSpan::from_millis(1500),
            clients: 2,
            concurrency: 3,
            fail_fast: true,
            driver: "local".to_owned(),
            nemesis: vec!["pause".to_owned()],
            ..RunOptions::default()
        };
        options.lock_options.redis_persistence = fencepost_locks::Persistence::Everysec;
        let plan: Plan = toml::from_str(PLAN).unwrap();
        let text = scenario_text("what \"happens\"", "found", &options, &plan, ("exclusion", "overstayed"));
        insta::assert_snapshot!(text);
        let scenario = parse("own", "own.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let run = &scenario.runs[0];
        assert!(run.script.is_none() && scenario.about == "what \"happens\"");
        let spec = run.spec(run.options().clone()).unwrap_or_else(|error| panic!("{error:?}"));
        (options.driver, options.nemesis) = (RunOptions::default().driver, Vec::new());
        assert_eq!(spec.options, options);
        let triggers = |plan: &Plan| -> Vec<_> {
            let all = plan.faults.iter().flat_map(|fault| [&fault.when, &fault.then, &fault.until]);
            all.flatten().cloned().collect()
        };
        assert_eq!(triggers(&spec.plan), triggers(&plan));
        let without = |plan: &Plan| -> Vec<PlannedFault> {
            let fault =
                |fault: &PlannedFault| PlannedFault { when: None, then: None, until: None, ..fault.clone() };
            plan.faults.iter().map(fault).collect()
        };
        assert_eq!(without(&spec.plan), without(&plan));
        assert!(RunSpec::with_plan(options, plan).is_ok());
    }
}
