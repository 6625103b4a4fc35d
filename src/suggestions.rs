//! What people write who know other programs, and what they write here: tips in errors of the command line.

use crate::cli::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuggestionRow {
    /// The commands, separated by blanks; any, where none is named.
    #[serde(default)]
    of: String,
    /// What people write, without dashes, separated by blanks.
    words: String,
    tip: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suggestions {
    option: Vec<SuggestionRow>,
    command: Vec<SuggestionRow>,
}

static SUGGESTIONS: LazyLock<Suggestions> =
    LazyLock::new(|| toml::from_str(include_str!("suggestions.toml")).expect("a test reads it"));

impl SuggestionRow {
    fn answers(&self, word: &str, command: &str) -> bool {
        let has = |list: &str, word| list.split(' ').any(|each| each == word);
        has(&self.words, word) && (self.of.is_empty() || has(&self.of, command))
    }
}

/// The error with a tip, where it is known what was meant. Commands that are not shown are no tips.
pub fn with_suggestion(mut error: Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.trim_start_matches('-').to_owned()),
        _ => None,
    };
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg).and_then(|argument| {
            let usage = error.get(ContextKind::Usage).map(ContextValue::to_string).unwrap_or_default();
            let command = usage.split_whitespace().nth(2).unwrap_or_default();
            for_argument(command, argument.split('=').next().unwrap_or_default())
        }),
        ErrorKind::InvalidValue
            if text(ContextKind::InvalidArg).is_some_and(|arg| arg.starts_with("language")) =>
        {
            Some("a client in any language can speak the protocol: docs/client-protocol.md".to_owned())
        }
        ErrorKind::ValueValidation => of_number(&error),
        ErrorKind::InvalidSubcommand => {
            text(ContextKind::InvalidSubcommand).and_then(|word| for_command(&word))
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    } else if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
        let program = Cli::command();
        let is_shown =
            |name: &&String| program.find_subcommand(name).is_none_or(|found| !found.is_hide_set());
        let shown: Vec<String> = names.iter().filter(is_shown).cloned().collect();
        error.remove(ContextKind::SuggestedSubcommand);
        if !shown.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
        }
    }
    error
}

/// The library of the command line gives the reason of the standard library.
fn of_number(error: &Error) -> Option<String> {
    let reason = std::error::Error::source(error)?.to_string();
    reason.contains("invalid digit").then(|| "it takes a whole number, in digits".to_owned())
}

/// The command of a usage line: `Usage: fencepost test [OPTIONS]`.
fn for_argument(command: &str, argument: &str) -> Option<String> {
    if let Some(row) = SUGGESTIONS.option.iter().find(|row| row.answers(argument, command)) {
        return Some(row.tip.clone());
    }
    let is_lock = fencepost_engine::find_lock(argument).is_ok();
    match command {
        "test" | "hunt" if is_lock => Some(format!("a lock is named by --lock {argument}")),
        "compare" if is_lock => Some(format!("locks are named by --locks {argument}")),
        "serve" if std::path::Path::new(argument).is_dir() => {
            Some(format!("the folder is named by --results {argument}"))
        }
        "test" | "hunt" | "compare" if is_nemesis(argument) => Some(format!(
            "names in a list are separated by commas, without blanks: --nemesis pause,{argument}"
        )),
        _ => None,
    }
}

fn is_nemesis(word: &str) -> bool {
    fencepost_nemesis::registry().iter().any(|nemesis| nemesis.name() == word)
}

fn for_command(word: &str) -> Option<String> {
    SUGGESTIONS.command.iter().find(|row| row.answers(word, "")).map(|row| row.tip.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn said(words: &str) -> String {
        let words = std::iter::once("fencepost").chain(words.split_whitespace());
        with_suggestion(Cli::try_parse_from(words).unwrap_err()).render().to_string()
    }

    #[test]
    fn what_other_programs_call_otherwise_is_answered_with_what_it_is_called_here() {
        for (words, tip) in [
            ("test --runs 5", "tip: `fencepost replay RUN --times 5`"),
            ("test --for=5s", "tip: --time-limit 20s"),
            ("hunt --duration 60s", "tip: --for 10min"),
            ("test redlock", "tip: a lock is named by --lock redlock"),
            ("compare redlock", "tip: locks are named by --locks redlock"),
            ("test --nemesis pause, kill", "tip: names in a list are separated by commas"),
            ("serve --port 80", "tip: --listen 127.0.0.1:8080"),
            ("test -v", "RUST_LOG"),
            ("lock new --language ruby x", "tip: a client in any language"),
            ("run", "tip: `fencepost test`"),
            ("init", "tip: `fencepost lock new FOLDER`"),
        ] {
            let said = said(words);
            assert!(said.contains(tip), "{words}: {said}");
            assert_eq!(said.matches("tip:").count(), 1, "{words}: {said}");
        }
    }

    #[test]
    fn a_misspelled_word_is_answered_as_before_and_without_commands_that_are_not_shown() {
        assert!(said("tset").contains("'test'"));
        assert!(said("test --concurency 3").contains("'--concurrency'"));
        let said = said("supervis");
        assert!(!said.contains("supervise"), "{said}");
    }

    #[test]
    fn no_tip_is_about_an_option_that_is_there() {
        let program = Cli::command();
        for row in &SUGGESTIONS.option {
            let named = |command: &&clap::Command| row.of.split(' ').any(|each| each == command.get_name());
            for command in program.get_subcommands().filter(named) {
                let has = |word: &&str| command.get_arguments().any(|arg| arg.get_long() == Some(*word));
                assert_eq!(row.words.split(' ').find(has), None, "{}", command.get_name());
            }
        }
    }
}
