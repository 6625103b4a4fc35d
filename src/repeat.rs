//! The command that repeats a run.

use crate::cli::{Cli, Command};
use crate::spec::RunSpec;
use clap::Parser;
use serde_json::{Number, Value};

/// The exact command that repeats this run: everything that differs from the defaults, and the seed.
pub fn command(spec: &RunSpec) -> String {
    let mut words = vec![program().to_owned(), "test".to_owned()];
    let mut add = |name: &str, value: &Value| {
        let option = format!("--{}", name.trim_end_matches("-ms"));
        match value {
            Value::Bool(true) => words.push(option),
            Value::Array(items) => {
                words.extend([option, items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")]);
            }
            Value::String(text) => words.extend([option, quoted(text)]),
            Value::Number(number) if name.ends_with("-ms") => words.extend([option, length(number)]),
            Value::Number(number) => words.extend([option, number.to_string()]),
            Value::Bool(false) | Value::Null | Value::Object(_) => {}
        }
    };
    let (asked, default) = (as_json(spec), as_json(&default_spec()));
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
    words.join(" ")
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
fn program() -> &'static str {
    match (std::env::var_os("CARGO").is_some(), cfg!(debug_assertions)) {
        (true, false) => "cargo run --release --",
        (true, true) => "cargo run --",
        (false, _) => "fencepost",
    }
}

/// What `fencepost test` without options does.
fn default_spec() -> RunSpec {
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
        spec.clock_amplitude_ms = Some(0);
        spec.careful = true;
        spec.partition = Some("c1|n4,n5".to_owned());
        spec.torn_writes = Some(fencepost_nemesis::tools::disk::Torn::Sectors);
        spec.restart_after_ms = Some(2500);
        spec.options.nodes = Some(7);
        spec.options.redis_persistence = fencepost_locks::Persistence::Everysec;
        spec.seed = fencepost_history::Seed(42);
        assert_eq!(parsed(&command(&spec)), spec, "{}", command(&spec));
    }
}
