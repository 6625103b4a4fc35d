//! The command that repeats a run.

use crate::cli::{Cli, Command};
use clap::Parser;
use fencepost_engine::RunSpec;
use fencepost_history::run::{RunFile, now};
use fencepost_locks::option_name;
use serde_json::{Number, Value};

/// `run.toml` of a run that is about to start.
pub fn run_file(spec: &RunSpec) -> RunFile {
    RunFile {
        fencepost: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(spec),
        settings: settings(spec),
        started: now(),
        driver: spec.driver.clone(),
        servers: Vec::new(),
        spec: spec.settings(),
    }
}

/// The exact command that repeats this run: everything that differs from the defaults, and the seed.
pub fn command(spec: &RunSpec) -> String {
    if let Some(act) = &spec.scenario {
        let name = act.rsplit_once('-').map_or(act.as_str(), |(name, _)| name);
        return format!("{} scenario {name} --driver {} --seed {}", program(), spec.driver, spec.seed);
    }
    let mut words = vec![format!("{} test", program())];
    words.extend(differing(spec).into_iter().map(|(_, words)| words));
    words.extend(without_file());
    words.join(" ")
}

/// What sets a run apart from others besides its backend, guard, nemesis, seed, driver and length; empty where nothing
/// does.
pub fn settings(spec: &RunSpec) -> String {
    let named =
        ["backend", "guard", "nemesis", "seed", "driver", "time-limit-ms", "acquisitions", "fail-fast"];
    let words = differing(spec).into_iter().filter(|(name, _)| !named.contains(&name.as_str()));
    words.map(|(_, words)| words).collect::<Vec<_>>().join(" ")
}

/// Everything that differs from the defaults, and the seed: its name in the spec, and the words on the command line.
pub fn differing(spec: &RunSpec) -> Vec<(String, String)> {
    let (asked, default) = (as_json(spec), as_json(&default_spec()));
    let mut found: Vec<(String, String)> = Vec::new();
    let mut add =
        |name: &str, value: &Value| found.extend(words(name, value).map(|words| (name.to_owned(), words)));
    for (name, value) in asked.as_object().into_iter().flatten() {
        match name.as_str() {
            "options" => {
                let options = value.as_object().into_iter().flatten();
                options
                    .filter(|(name, value)| default["options"][*name] != **value)
                    .for_each(|(name, value)| add(name, value));
            }
            "seed" => add(name, value),
            _ if default[name] != *value => add(name, value),
            _ => {}
        }
    }
    found
}

/// An option as it stands on the command line; None where leaving it out says the same.
fn words(name: &str, value: &Value) -> Option<String> {
    let option = format!("--{}", option_name(name));
    match value {
        Value::Bool(true) => Some(option),
        Value::Array(items) => {
            Some(format!("{option} {}", items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")))
        }
        Value::String(text) => Some(format!("{option} {}", quoted(text))),
        Value::Number(number) if name.ends_with("-ms") => Some(format!("{option} {}", length(number))),
        Value::Number(number) => Some(format!("{option} {number}")),
        Value::Bool(false) | Value::Null | Value::Object(_) => None,
    }
}

/// Where a file says what would be on the command line, the command that repeats must say so: it names everything itself.
pub fn without_file() -> Option<String> {
    crate::config::in_use().then(|| "--config none".to_owned())
}

/// As a shell takes it: `'c1|n4'`.
fn quoted(text: &str) -> String {
    let plain = |sign: char| sign.is_alphanumeric() || "-_./,:=+".contains(sign);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// `4s` rather than `4000ms`.
fn length(milliseconds: &Number) -> String {
    match milliseconds.as_u64() {
        Some(whole) if whole > 0 && whole % 1000 == 0 => format!("{}s", whole / 1000),
        _ => format!("{milliseconds}ms"),
    }
}

/// How the program was called: through cargo, or by itself.
pub fn program() -> &'static str {
    match (std::env::var_os("CARGO").is_some(), cfg!(debug_assertions)) {
        (true, false) => "cargo run --release --",
        (true, true) => "cargo run --",
        (false, _) => "fencepost",
    }
}

/// What `fencepost test` without options does.
pub fn default_spec() -> RunSpec {
    match Cli::parse_from(["fencepost", "test", "--seed", "0"]).command {
        Command::Test(args) => args.spec().expect("the defaults make a spec"),
        _ => unreachable!("the words above name the command test"),
    }
}

fn as_json(spec: &RunSpec) -> Value {
    serde_json::to_value(spec).expect("a spec is always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the command apart again.
    fn parsed(command: &str) -> RunSpec {
        let words = command.strip_prefix(program()).expect("begins with the program");
        let words =
            ["fencepost"].into_iter().chain(words.split_whitespace().map(|word| word.trim_matches('\'')));
        match Cli::parse_from(words).command {
            Command::Test(args) => args.spec().unwrap(),
            _ => panic!("not a test: {command}"),
        }
    }

    #[test]
    fn the_command_repeats_the_spec() {
        let mut spec = default_spec();
        assert!(command(&spec).ends_with("test --seed 0"), "{}", command(&spec));
        spec.nemesis = vec!["clock-jump".to_owned(), "pause".to_owned()];
        spec.backend = "etcd".to_owned();
        spec.ttl_ms = 3500;
        spec.rate = 2.5;
        spec.acquisitions = Some(40);
        spec.clock_amplitude_ms = Some(0);
        spec.clock = fencepost_nemesis::Clock::Both;
        spec.clock_drift_ppm = std::num::NonZeroU32::new(100_000);
        spec.clock_mechanism = Some(fencepost_cluster::ClockMechanism::Faketime);
        spec.careful = true;
        spec.partition = Some("c1|n4,n5".to_owned());
        spec.torn_writes = Some(fencepost_nemesis::tools::disk::Torn::Sectors);
        spec.restart_after_ms = Some(2500);
        spec.linger = vec!["before-replies=300ms".parse().unwrap()];
        spec.storage_linger_ms = 500;
        spec.readers = 2;
        spec.options.nodes = Some(7);
        spec.options.no_recheck = true;
        spec.options.lock_delay_ms = Some(1500);
        spec.options.redis_persistence = fencepost_locks::Persistence::Everysec;
        spec.seed = fencepost_history::Seed(42);
        assert_eq!(parsed(&command(&spec)), spec, "{}", command(&spec));
    }
}
