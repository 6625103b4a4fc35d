//! Options of a run as words of a command line: what differs from the defaults.

use crate::settings::option_facts::has_own_place;
use crate::settings::options::RunOptions;
use fencepost_history::{changed_fields, shell_word};
use serde_json::Value;

impl RunOptions {
    /// The arguments of `fencepost test` that repeat this run: everything that differs from the defaults.
    pub fn arguments(&self) -> String {
        let words: Vec<String> = self.differing().into_iter().map(|(_, words)| words).collect();
        words.join(" ")
    }

    /// The arguments that distinguish the run, besides lock, guard, nemesis, seed, driver and length.
    pub fn distinguishing_arguments(&self) -> String {
        let words = self.differing().into_iter().filter(|(name, _)| !has_own_place(name));
        words.map(|(_, words)| words).collect::<Vec<_>>().join(" ")
    }

    fn differing(&self) -> Vec<(String, String)> {
        let changed = changed_fields(self).into_iter();
        changed.filter_map(|(name, value)| words(&name, &value).map(|words| (name, words))).collect()
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::{Arg, CommandFactory, Parser};

    #[derive(Parser)]
    struct Test {
        #[command(flatten)]
        options: RunOptions,
    }

    fn parsed(arguments: &str) -> Result<RunOptions, clap::Error> {
        let words = arguments.split_whitespace().map(|word| word.trim_matches('\''));
        let mut options = Test::try_parse_from(["test"].into_iter().chain(words))?.options;
        options.nemesis.retain(|name| name != "none");
        Ok(options)
    }

    /// Each option of the command line, and a call that gives it a value that is not its default.
    pub(crate) fn each_option() -> Vec<(String, RunOptions)> {
        let command = Test::command();
        let named = command.get_arguments().filter_map(|arg| Some((arg.get_long()?.to_owned(), arg)));
        named.map(|(name, arg)| (name.clone(), with_value(&name, arg))).collect()
    }

    fn with_value(name: &str, arg: &Arg) -> RunOptions {
        let listed = arg.get_possible_values().into_iter().map(|value| value.get_name().to_owned());
        let values = listed.chain(["7", "before-replies=7ms", "redis-7.0"].map(str::to_owned));
        let with = values.flat_map(|value| {
            [format!("--{name}"), format!("--{name} {value}"), format!("--client x --{name} {value}")]
        });
        let mut given = with.filter_map(|call| parsed(&call).ok());
        let given = given.find(|options| changed_fields(options).contains_key(name));
        given.unwrap_or_else(|| panic!("a value of --{name} that is not its default, for the list above"))
    }

    #[test]
    fn command_line_has_the_defaults_of_the_type() {
        assert_eq!(parsed("").unwrap(), RunOptions::default());
        assert_eq!(RunOptions::default().arguments(), "");
    }

    #[test]
    fn every_option_is_repeated_and_kept() {
        for (name, options) in each_option() {
            let arguments = options.arguments();
            assert!(arguments.contains(&format!("--{name}")), "{name}: {arguments}");
            assert_eq!(parsed(&arguments).unwrap(), options, "{arguments}");
            let kept = toml::to_string(&options).unwrap();
            assert_eq!(toml::from_str::<RunOptions>(&kept).unwrap(), options, "{kept}");
            let kept = serde_json::to_string(&options).unwrap();
            assert_eq!(serde_json::from_str::<RunOptions>(&kept).unwrap(), options, "{kept}");
        }
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
    fn values_are_written_as_people_write_them() {
        let options = parsed("--ttl 3500ms --redis-persistence everysec --partition c1|n4,n5").unwrap();
        let text = toml::to_string(&options).unwrap();
        for line in ["ttl = \"3500ms\"", "redis-persistence = \"everysec\"", "partition = \"c1|n4,n5\""] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(options.arguments(), "--partition 'c1|n4,n5' --redis-persistence everysec --ttl 3500ms");
    }
}
