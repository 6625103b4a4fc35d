//! Holds docs/configuration.md against the command line: every key, its default, and what it does.

use super::{commands, options};
use crate::cli::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory};

/// What stands before the keys.
const MARK: &str = "<!-- From here on made from the command line's own definition. -->\n";

fn keys() -> String {
    commands(&Cli::command()).map(table).collect::<Vec<_>>().join("\n")
}

fn table(command: &Command) -> String {
    let rows: String = options(command).map(row).collect();
    format!("## [{}]\n\n| key | value | default | |\n|---|---|---|---|\n{rows}", command.get_name())
}

fn row((key, arg): (&str, &Arg)) -> String {
    let values: Vec<String> =
        arg.get_possible_values().iter().map(|value| format!("`\"{}\"`", value.get_name())).collect();
    let value = match arg.get_action() {
        ArgAction::SetTrue => "`true`".to_owned(),
        _ if !values.is_empty() => values.join(", "),
        ArgAction::Append => "one, or a list".to_owned(),
        _ => String::new(),
    };
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = match arg.get_action() {
        ArgAction::SetTrue => String::new(),
        _ if defaults.is_empty() || arg.is_hide_default_value_set() => String::new(),
        _ => format!("`{}`", defaults.join(",")),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| `{key}` | {value} | {default} | {} |\n", help.replace('|', "\\|"))
}

#[test]
fn the_documentation_names_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (prose, listed) = text.split_once(MARK).expect("the mark stands in docs/configuration.md");
    let keys = format!("\n{}", keys());
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(path, format!("{prose}{MARK}{keys}")).unwrap();
        return;
    }
    assert!(
        listed == keys,
        "docs/configuration.md is behind; `INSTA_UPDATE=always cargo test -p fencepost --lib config` renews it"
    );
}
