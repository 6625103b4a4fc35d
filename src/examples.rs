//! Examples of each command, its exit codes, and the commands to go on with: for its help and manual page.

use clap::Command;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A line to type, and what it does.
pub type Example = (String, String);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    pub lines: Vec<Example>,
    /// The commands to go on with, as `lock new`.
    #[serde(default)]
    pub see: Vec<String>,
    exit: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Examples {
    exits: BTreeMap<String, Vec<(i32, String)>>,
    commands: BTreeMap<String, About>,
}

static EXAMPLES: LazyLock<Examples> =
    LazyLock::new(|| toml::from_str(include_str!("examples.toml")).expect("a test reads it"));

/// What there is about a command, by what is typed behind `fencepost`; about the program, without a word.
pub fn about(words: &str) -> Option<&'static About> {
    EXAMPLES.commands.get(if words.is_empty() { "fencepost" } else { words })
}

impl About {
    /// The exit codes of its command, and their meaning.
    pub fn exits(&self) -> impl Iterator<Item = &'static (i32, String)> {
        let own = self.exit.as_deref().unwrap_or("done");
        [own, "failed"].into_iter().filter_map(|name| EXAMPLES.exits.get(name)).flatten()
    }

    /// `exit code 1: a property is violated`; none where the code has no meaning of its own.
    pub fn exit(&self, code: i32) -> Option<String> {
        let (_, meaning) = self.exits().find(|(exit, _)| *exit == code)?;
        Some(format!("exit code {code}: {meaning}"))
    }

    /// How the help of its command is laid out: the examples come before the usage.
    fn template(&self) -> String {
        let width = self.lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
        let lines: String =
            self.lines.iter().map(|(line, does)| format!("  {line:<width$}  # {does}\n")).collect();
        format!(
            "{{about-with-newline}}\nExamples:\n{lines}\n{{usage-heading}} {{usage}}\n\n{{all-args}}{{after-help}}"
        )
    }
}

/// The command line, with examples in the help of each command.
pub fn shown(program: Command) -> Command {
    shown_in(program, "")
}

fn shown_in(mut command: Command, words: &str) -> Command {
    if let Some(about) = about(words) {
        command = command.help_template(about.template());
    }
    let names: Vec<String> = command.get_subcommands().map(|beneath| beneath.get_name().to_owned()).collect();
    names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |beneath| shown_in(beneath, format!("{words} {name}").trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    fn assert_has_examples(command: &Command, words: &str) {
        let about = about(words).unwrap_or_else(|| panic!("`{words}` has no examples"));
        for (line, _) in &about.lines {
            let typed: Vec<&str> = line.split(' ').take_while(|word| *word != ">").collect();
            let called = typed[1..].join(" ");
            assert!(words.is_empty() || called.starts_with(words), "`{line}` is no example of `{words}`");
            Cli::try_parse_from(typed).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        for name in &about.see {
            let found =
                name.split(' ').try_fold(&Cli::command(), |it, name| it.find_subcommand(name)).is_some();
            assert!(found, "`{words}` leads to `{name}`");
        }
        assert!(about.exits().count() > 2, "`{words}`: {:?}", about.exit);
        for beneath in command.get_subcommands().filter(|beneath| !beneath.is_hide_set()) {
            assert_has_examples(beneath, format!("{words} {}", beneath.get_name()).trim_start());
        }
    }

    #[test]
    fn each_command_has_examples_that_can_be_typed() {
        assert_has_examples(&Cli::command(), "");
    }

    #[test]
    fn help_begins_with_examples() {
        let mut program = shown(Cli::command());
        let help = program.find_subcommand_mut("hunt").unwrap().render_help().to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("no {text} in {help}"));
        assert!(at("Examples:\n  fencepost hunt --lock redlock --for 3m") < at("Usage:"), "{help}");
    }
}
