//! Writes a scenario file: a workload with a seed and faults, and the violation that it shows.

use crate::settings::option_facts::{InScenario, OPTION_FACTS, in_scenario};
use crate::settings::options::RunOptions;
use fencepost_history::{changed_fields, fields, inline_toml};
use fencepost_nemesis::{Plan, fault_text};
use serde_json::Value;
use std::fmt::Write;

/// The file of a scenario whose clients follow their workload, and that expects this violation.
pub fn scenario_text(
    about: &str,
    source: &str,
    options: &RunOptions,
    plan: &Plan,
    violation: (&str, &str),
) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "about = {}", inline_toml(&about.into()));
    let _ = writeln!(text, "source = {}\n", inline_toml(&source.into()));
    for (name, option) in needed_options(&options.clone().without_unused(&plan.nemeses())) {
        let _ = writeln!(text, "{name} = {}", inline_toml(&option));
    }
    for fault in &plan.faults {
        let _ = write!(text, "\n{}", fault_text(fault));
    }
    let (checker, class) = violation;
    let (checker, class) = (inline_toml(&checker.into()), inline_toml(&class.into()));
    let _ = writeln!(text, "\n[expect]\nviolation = {{ checker = {checker}, class = {class} }}");
    text
}

/// The options that a scenario needs: those that every scenario says, then those that differ.
fn needed_options(options: &RunOptions) -> Vec<(String, Value)> {
    let given = fields(options);
    let always = OPTION_FACTS.iter().filter(|facts| facts.in_scenario == InScenario::Always);
    let always = always.filter_map(|facts| Some((facts.name.to_owned(), given.get(facts.name)?.clone())));
    let changed = changed_fields(options).into_iter();
    always.chain(changed.filter(|(name, _)| in_scenario(name) == InScenario::Changed)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file::parse;
    use super::super::run_options;
    use super::*;
    use crate::settings::command_line::tests::each_option;
    use crate::settings::validation::RunSpec;
    use fencepost_history::{Seed, TimeSpan};

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
    fn every_option_is_in_a_scenario_or_left_out_on_purpose() {
        let names: Vec<String> = each_option().into_iter().map(|(name, _)| name).collect();
        for facts in OPTION_FACTS.iter().filter(|facts| facts.name != "scenario") {
            assert!(names.iter().any(|name| name == facts.name), "{} is no option", facts.name);
        }
        for (name, options) in each_option() {
            let needed = needed_options(&options);
            let is_written = needed.iter().any(|(written, _)| *written == name);
            let known = in_scenario(&name);
            assert_eq!(is_written, matches!(known, InScenario::Always | InScenario::Changed), "{name}");
            if is_written {
                let lines = needed.iter().map(|(name, value)| format!("{name} = {}\n", inline_toml(value)));
                let text = lines.collect::<String>();
                let table = toml::de::DeTable::parse(&text).unwrap().into_inner();
                let read = run_options::read(&toml::de::DeTable::new(), &table, None).unwrap();
                assert_eq!(read.options, options, "{text}");
            }
        }
    }

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
        let topology = RunSpec::with_plan(options.clone(), Plan::default()).unwrap().topology;
        let plan = Plan::parse(PLAN, &topology).unwrap();
        let text = scenario_text("what \"happens\"", "found", &options, &plan, ("exclusion", "overstayed"));
        insta::assert_snapshot!(text);
        let scenario = parse("own", "own.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let run = &scenario.runs[0];
        assert!(run.script.is_none() && scenario.about == "what \"happens\"");
        let spec = run.spec(run.options().clone()).unwrap_or_else(|error| panic!("{error:?}"));
        (options.driver, options.nemesis) = (RunOptions::default().driver, Vec::new());
        assert_eq!(spec.options, options);
        assert_eq!(spec.plan, plan);
        assert!(RunSpec::with_plan(options, plan).is_ok());
    }
}
