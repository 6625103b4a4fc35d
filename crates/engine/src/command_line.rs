//! Options of a run as words of a command line: what differs from the defaults.

use crate::options::RunOptions;
use fencepost_history::shell_word;
use serde_json::Value;

impl RunOptions {
    /// The arguments of `fencepost test` that repeat this run: everything that differs from the defaults.
    pub fn arguments(&self) -> String {
        let words: Vec<String> = self.differing().into_iter().map(|(_, words)| words).collect();
        words.join(" ")
    }

    /// The arguments that set the run apart from others of its lock, guard, nemesis, seed, driver and length;
    /// empty where all of them have their defaults.
    pub fn distinguishing_arguments(&self) -> String {
        let others =
            ["lock", "guard", "nemesis", "seed", "driver", "time-limit", "acquisitions", "fail-fast"];
        let words = self.differing().into_iter().filter(|(name, _)| !others.contains(&name.as_str()));
        words.map(|(_, words)| words).collect::<Vec<_>>().join(" ")
    }

    /// Everything that differs from the defaults: the name of the option, and its words.
    pub fn differing(&self) -> Vec<(String, String)> {
        let (options, default) = (as_json(self), as_json(&RunOptions::default()));
        let differs = |name: &str, value: &Value| default.get(name) != Some(value);
        let given = options.as_object().into_iter().flatten().filter(|(name, value)| differs(name, value));
        given.filter_map(|(name, value)| Some((name.clone(), words(name, value)?))).collect()
    }
}

/// An option as it is written on the command line; None where leaving it out says the same.
fn words(name: &str, value: &Value) -> Option<String> {
    let option = format!("--{name}");
    match value {
        Value::Bool(true) => Some(option),
        Value::Array(items) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            Some(format!("{option} {}", shell_word(&items.join(","))))
        }
        Value::String(text) => Some(format!("{option} {}", shell_word(text))),
        Value::Number(number) => Some(format!("{option} {number}")),
        Value::Bool(false) | Value::Null | Value::Object(_) => None,
    }
}

fn as_json(options: &RunOptions) -> Value {
    serde_json::to_value(options).expect("options are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use fencepost_history::{Seed, TimeSpan};

    #[derive(Parser)]
    struct Test {
        #[command(flatten)]
        options: RunOptions,
    }

    fn parsed(arguments: &str) -> RunOptions {
        let words =
            ["test"].into_iter().chain(arguments.split_whitespace().map(|word| word.trim_matches('\'')));
        let mut options = Test::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).options;
        options.nemesis.retain(|name| name != "none");
        options
    }

    /// Options that differ from the defaults in every kind of value.
    fn unusual() -> RunOptions {
        let mut options = RunOptions {
            seed: Some(Seed(42)),
            lock: "etcd".to_owned(),
            nemesis: vec!["clock-jump".to_owned(), "pause".to_owned()],
            ttl: TimeSpan::from_millis(3500),
            storage_write_delay: TimeSpan::from_millis(500),
            rate: 2.5,
            acquisitions: Some(40),
            clock: fencepost_nemesis::Clock::Both,
            clock_amplitude: Some(TimeSpan::default()),
            clock_drift_ppm: std::num::NonZeroU32::new(100_000),
            clock_mechanism: Some(fencepost_cluster::ClockMechanism::Faketime),
            careful: true,
            partition: Some("c1|n4,n5".to_owned()),
            torn_writes: Some(fencepost_nemesis::tools::disk::Torn::Sectors),
            restart_after: Some(TimeSpan::from_millis(2500)),
            pause_at: vec!["before-replies=300ms".parse().unwrap()],
            readers: 2,
            ..RunOptions::default()
        };
        options.lock_options.nodes = Some(7);
        options.lock_options.no_recheck = true;
        options.lock_options.lock_delay = Some(TimeSpan::from_millis(1500));
        options.lock_options.redis_persistence = fencepost_locks::Persistence::Everysec;
        options
    }

    #[test]
    fn command_line_has_the_defaults_of_the_type() {
        assert_eq!(parsed(""), RunOptions::default());
        assert_eq!(RunOptions::default().arguments(), "");
    }

    #[test]
    fn arguments_repeat_the_options() {
        let options = unusual();
        assert_eq!(parsed(&options.arguments()), options, "{}", options.arguments());
    }

    #[test]
    fn what_a_shell_would_carry_out_is_quoted() {
        let options = RunOptions {
            nemesis: vec!["pause".to_owned(), "$(reboot)".to_owned()],
            lock: "my `lock`".to_owned(),
            ..RunOptions::default()
        };
        assert_eq!(options.arguments(), "--lock 'my `lock`' --nemesis 'pause,$(reboot)'");
    }

    #[test]
    fn a_file_keeps_the_options() {
        let options = unusual();
        let text = toml::to_string(&options).unwrap();
        assert!(
            text.contains("ttl = \"3500ms\"") && text.contains("redis-persistence = \"everysec\""),
            "{text}"
        );
        assert_eq!(toml::from_str::<RunOptions>(&text).unwrap(), options, "{text}");
    }
}
