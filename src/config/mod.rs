//! `fencepost.toml`: the command line, kept in a file. The file becomes arguments, put before those of the
//! command line, unless these overrule them. So clap's definition is the only list of keys.

#[cfg(test)]
mod keys;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use fencepost_cluster::DownloadSettings;
use fencepost_engine::BadUsage;
use fencepost_history::mistake::{Mistake, read_table};
use fencepost_history::run::read_settings;
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The file that is read where it is there and the command line names no other.
const NAME: &str = "fencepost.toml";

/// The table of no command: where packages come from.
const PACKAGES: &str = "packages";

/// Commands that have no use for the file, and so do not fail for a mistake in it.
const WITHOUT_FILE: [&str; 3] = ["clean", "completions", "man"];

/// Options that are of one call: the last is that of a shell which reads what is printed.
const NOT_IN_A_FILE: [&str; 4] = ["config", "help", "version", "env"];

const NO_FILE: &str = "none";

static FROM_FILE: OnceLock<Vec<String>> = OnceLock::new();

/// Whether a file set something in this call: a command that repeats it must exclude the file.
pub fn in_use() -> bool {
    FROM_FILE.get().is_some_and(|options| !options.is_empty())
}

/// Whether this option comes from a file: a run that has no use for it goes without it.
pub fn comes_from_file(option: &str) -> bool {
    FROM_FILE.get().is_some_and(|options| options.iter().any(|other| other == option))
}

pub fn is_said(option: &str) -> bool {
    comes_from_file(option) || is_called_with(option)
}

pub fn is_called_with(option: &str) -> bool {
    is_among(&std::env::args_os().collect::<Vec<OsString>>(), option)
}

fn is_among(arguments: &[OsString], option: &str) -> bool {
    let long = format!("--{option}");
    let mut options = arguments.iter().take_while(|argument| *argument != "--");
    options.any(|argument| *argument == *long || starts_with(argument, &format!("{long}=")))
}

/// The arguments, behind those of the file; `program` defines them. Errors: any mistake in the file.
pub fn arguments(program: &Command) -> Result<Vec<OsString>, BadUsage> {
    let called: Vec<OsString> = std::env::args_os().collect();
    let (arguments, options) = with_file(called, program)?;
    // Arguments are made once.
    let _ = FROM_FILE.set(options);
    Ok(arguments)
}

/// The arguments, with those of the file; and the options that the file added.
fn with_file(arguments: Vec<OsString>, command: &Command) -> Result<(Vec<OsString>, Vec<String>), BadUsage> {
    let unchanged = |arguments| Ok((arguments, Vec::new()));
    let Some(at) = command_at(&arguments) else { return unchanged(arguments) };
    let asked = arguments[at].to_str().and_then(|name| command.find_subcommand(name));
    // Programs inside nodes are no business of the file, and some commands have no use for it.
    let reads = |asked: &&Command| !asked.is_hide_set() && !WITHOUT_FILE.contains(&asked.get_name());
    let Some(asked) = asked.filter(reads) else { return unchanged(arguments) };
    let Some(path) = file(&arguments) else { return unchanged(arguments) };
    let text = read_settings(&path).map_err(BadUsage::cannot("read", &path))?;
    let (settings, downloads) = parse(&text, command)
        .map_err(|mistake| BadUsage::new(mistake.in_file(&path.display().to_string(), &text)))?;
    DownloadSettings::set_defaults(downloads);
    let settings: Vec<ConfigSetting> = settings
        .into_iter()
        .filter(|setting| {
            setting.command == asked.get_name()
                && !setting.words.is_empty()
                && !setting.is_overruled(asked, &arguments[at..])
        })
        .collect();
    let options = settings.iter().map(|setting| setting.key.clone()).collect();
    let words: Vec<OsString> =
        settings.into_iter().flat_map(|setting| setting.words).map(Into::into).collect();
    let (before, after) = arguments.split_at(at + 1);
    Ok(([before, &words, after].concat(), options))
}

fn command_at(arguments: &[OsString]) -> Option<usize> {
    let is_value = |at: usize| arguments[at - 1] == "--config";
    (1..arguments.len()).find(|at| !starts_with(&arguments[*at], "-") && !is_value(*at))
}

fn starts_with(argument: &OsStr, beginning: &str) -> bool {
    argument.as_encoded_bytes().starts_with(beginning.as_bytes())
}

fn file(arguments: &[OsString]) -> Option<PathBuf> {
    let named = arguments.iter().enumerate().find_map(|(at, argument)| match argument.to_str() {
        Some("--config") => arguments.get(at + 1).map(PathBuf::from),
        Some(argument) => argument.strip_prefix("--config=").map(PathBuf::from),
        None => None,
    });
    match named {
        Some(path) => (path != Path::new(NO_FILE)).then_some(path),
        None => Some(PathBuf::from(NAME)).filter(|path| path.is_file()),
    }
}

struct ConfigSetting {
    command: String,
    key: String,
    words: Vec<String>,
}

impl ConfigSetting {
    /// Whether the command line says the same option, or one that excludes it.
    fn is_overruled(&self, command: &Command, arguments: &[OsString]) -> bool {
        let is_given = |name: &str| is_among(arguments, name);
        let given = |key: &str, arg: &Arg| {
            is_given(key) || arg.get_visible_aliases().into_iter().flatten().any(&is_given)
        };
        let mine = options(command).find(|(key, _)| *key == self.key).map(|(_, arg)| arg);
        let exclude = |one: &Arg, other: &Arg| command.get_arg_conflicts_with(one).contains(&other);
        let excluded = |other: &Arg| mine.is_some_and(|mine| exclude(mine, other) || exclude(other, mine));
        options(command).any(|(key, arg)| given(key, arg) && (key == self.key || excluded(arg)))
    }
}

fn options(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let options = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    options.filter(|(key, arg)| !arg.is_hide_set() && !NOT_IN_A_FILE.contains(key))
}

fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|each| !each.is_hide_set() && options(each).next().is_some())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PackagesTable {
    mirror: Option<String>,
    security_mirror: Option<String>,
    proxy: Option<String>,
    #[serde(default)]
    old_lists: bool,
}

fn downloads(value: &Spanned<DeValue<'_>>) -> Result<DownloadSettings, Mistake> {
    let DeValue::Table(table) = value.get_ref().clone() else {
        return Err(Mistake::new(value.span(), format!("`{PACKAGES}` is a table: [{PACKAGES}]")));
    };
    let PackagesTable { mirror, security_mirror, proxy, old_lists } = read_table(table, value.span())?;
    let settings = DownloadSettings { mirror, security_mirror, proxy, old_lists };
    settings.check().map_err(|refusal| Mistake::of(value.span(), refusal))?;
    Ok(settings)
}

fn parse(text: &str, command: &Command) -> Result<(Vec<ConfigSetting>, DownloadSettings), Mistake> {
    let tables = DeTable::parse(text).map_err(|error| Mistake::of_toml(&error))?.into_inner();
    let (mut settings, mut packages) = (Vec::new(), DownloadSettings::default());
    for (name, table) in &tables {
        if name.get_ref() == PACKAGES {
            packages = downloads(table)?;
            continue;
        }
        let Some(table) = table.get_ref().as_table() else {
            let key = name.get_ref();
            let sentence = format!("`{key}` stands outside of the table of a command, [test] for instance");
            return Err(Mistake::new(name.span(), sentence));
        };
        let Some(of) = commands(command).find(|each| each.get_name() == name.get_ref()) else {
            let known: Vec<&str> = commands(command).map(Command::get_name).chain([PACKAGES]).collect();
            return Err(Mistake::unknown(name.span(), "table", name.get_ref(), &known));
        };
        for (key, value) in table {
            let is_named = |option: &Arg| {
                let aliases = option.get_visible_aliases().into_iter().flatten();
                option.get_long().into_iter().chain(aliases).any(|name| name == key.get_ref())
            };
            let Some((known, option)) = options(of).find(|(_, option)| is_named(option)) else {
                let known: Vec<&str> = options(of).map(|(known, _)| known).collect();
                let what = format!("key of [{}]", of.get_name());
                return Err(Mistake::unknown(key.span(), &what, key.get_ref(), &known));
            };
            let words = words(known, option, value.get_ref())
                .and_then(|words| accepted(command, of.get_name(), words))
                .map_err(|sentence| Mistake::new(value.span(), sentence))?;
            settings.push(ConfigSetting { command: of.get_name().to_owned(), key: known.to_owned(), words });
        }
    }
    Ok((settings, packages))
}

fn words(key: &str, option: &Arg, value: &DeValue) -> Result<Vec<String>, String> {
    let long = format!("--{key}");
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return match value {
            DeValue::Boolean(true) => Ok(vec![long]),
            DeValue::Boolean(false) => Ok(Vec::new()),
            _ => Err(format!("`{key}` is true or false")),
        };
    }
    let texts = match value {
        DeValue::Array(_) if !matches!(option.get_action(), ArgAction::Append) => {
            return Err(format!("`{key}` takes one value"));
        }
        DeValue::Array(items) => {
            items.iter().map(|item| text(key, item.get_ref())).collect::<Result<Vec<_>, _>>()?
        }
        value => vec![text(key, value)?],
    };
    // With `=`, so that a value may begin with a hyphen.
    Ok(texts.into_iter().map(|text| format!("{long}={text}")).collect())
}

fn text(key: &str, value: &DeValue) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        other => Err(format!("`{key}` is a text or a number, not {}", other.type_str())),
    }
}

/// Lets clap look at the value of one option.
fn accepted(command: &Command, name: &str, words: Vec<String>) -> Result<Vec<String>, String> {
    let call = ["fencepost", name].map(str::to_owned).into_iter().chain(words.iter().cloned());
    match command.clone().try_get_matches_from(call) {
        // What else the command needs, the command line may have.
        Err(error)
            if !matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict) =>
        {
            let text = error.to_string();
            let sentence = text.lines().next().unwrap_or_default();
            Err(sentence.strip_prefix("error: ").unwrap_or(sentence).to_owned())
        }
        _ => Ok(words),
    }
}

/// Reads a file of this text, for the fuzzer.
pub fn fuzz(text: &str, command: &Command) {
    if let Err(mistake) = parse(text, command) {
        assert!(!mistake.in_file("fencepost.toml", text).to_string().is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{Args, CommandFactory};
    use fencepost_engine::RunOptions;

    fn arguments(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// The arguments of this call, with a file of this text; or what is wrong.
    fn with(text: &str, line: &str) -> Result<String, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        let line = line.replacen("fencepost ", &format!("fencepost --config {path} "), 1);
        let (words, _) = with_file(arguments(&line), &Cli::command())
            .map_err(|error| error.sentence.replace(path, "FILE"))?;
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        Ok(words.join(" ").replace(&format!("--config {path} "), ""))
    }

    const FILE: &str = "
[test]
lock = \"etcd\"
nemesis = [\"pause\", \"clock-jump\"]
clients = 3
rate = 1.5
careful = true
fail-fast = false

[check]
skip = [\"noise\"]
";

    #[test]
    fn a_file_becomes_arguments_before_those_of_the_command_line() {
        assert_eq!(
            with(FILE, "fencepost test --ttl 3s").unwrap(),
            "fencepost test --careful --clients=3 --lock=etcd --nemesis=pause --nemesis=clock-jump --rate=1.5 --ttl 3s"
        );
        assert_eq!(with(FILE, "fencepost check a.edn").unwrap(), "fencepost check --skip=noise a.edn");
    }

    #[test]
    fn what_is_said_is_found_in_both_spellings_and_not_among_values() {
        let said = |line: &str| is_among(&arguments(line), "ttl");
        assert!(said("fencepost test --ttl 3s") && said("fencepost test --ttl=3s"));
        assert!(!said("fencepost test --ttls 3s") && !said("fencepost test -- --ttl 3s"));
    }

    #[test]
    fn where_packages_come_from_is_no_option_of_a_command() {
        let of = |table: &str| parse(&format!("[packages]\n{table}\n"), &Cli::command());
        let (settings, downloads) = of("mirror = \"http://a/debian\"\nproxy = \"http://b:3128\"").unwrap();
        assert!(settings.is_empty());
        let text = |text: &str| Some(text.to_owned());
        assert_eq!((downloads.mirror, downloads.proxy), (text("http://a/debian"), text("http://b:3128")));
        let refused = |table| of(table).map(drop).unwrap_err().sentence;
        assert_eq!(refused("miror = \"\""), "unknown key \"miror\": did you mean \"mirror\"?");
        assert!(refused("mirror = \"ftp://a/debian\"").contains("invalid address"));
        assert!(refused("mirror = \"http://a/x\"").contains("ends in /debian"));
    }

    #[test]
    fn the_command_line_wins() {
        let line = "fencepost test --lock redlock --nemesis=kill --clients 2 --rate 0 --careful";
        assert_eq!(with(FILE, line).unwrap(), line);
        // Also where it says something that the file's key excludes.
        let plan = with(FILE, "fencepost test --nemesis-file plan.toml").unwrap();
        assert!(!plan.contains("pause") && plan.contains("--lock=etcd"), "{plan}");
    }

    #[test]
    fn commands_without_use_for_it_and_those_of_nodes_read_no_file() {
        for line in ["fencepost clean", "fencepost client", "fencepost storage", "fencepost"] {
            assert!(with("no toml", line).is_ok(), "{line}");
        }
        assert!(with_file(arguments("fencepost test --config none"), &Cli::command()).is_ok());
        let missing =
            with_file(arguments("fencepost test --config /nowhere.toml"), &Cli::command()).unwrap_err();
        assert!(missing.sentence.contains("cannot read /nowhere.toml"), "{missing}");
    }

    /// Lists of all that there is, which grow, as clap's definition has them: a list that differs stays.
    fn without_lists(sentence: &str) -> String {
        let cli = Cli::command();
        let tables = commands(&cli).map(Command::get_name).chain([PACKAGES]);
        let keys = |of: &Command| options(of).map(|(key, _)| key.to_owned()).collect::<Vec<_>>().join(", ");
        let all_tables = (tables.collect::<Vec<_>>().join(", "), "<every table>".to_owned());
        let all_keys = commands(&cli).map(|of| (keys(of), format!("<every key of [{}]>", of.get_name())));
        let is_it = |(list, _): &(String, String)| sentence.ends_with(&format!("expected one of {list}"));
        match all_keys.chain([all_tables]).find(is_it) {
            Some((list, name)) => sentence.replace(&list, &name),
            None => sentence.to_owned(),
        }
    }

    #[test]
    fn every_option_of_a_run_is_a_key() {
        let run = RunOptions::augment_args(Command::new("run"));
        let cli = Cli::command();
        let test = cli.find_subcommand("test").unwrap();
        for option in run.get_arguments().filter(|option| !option.is_hide_set()) {
            let name = option.get_long().unwrap();
            assert!(options(test).any(|(key, _)| key == name), "{name} is no key of [test]");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line_and_the_nearest_right_key() {
        let cases = [
            "[test]\nlokc = \"etcd\"",
            "[test]\ntime_limit = \"3s\"",
            "[test]\nxyzzyxyzzy = 1",
            "[tset]\nlock = \"etcd\"",
            "lock = \"etcd\"",
            "[test]\n\n# a comment\nttl = \"soon\"",
            "[test]\nclients = -1",
            "[test]\nclients = [1, 2]",
            "[test]\ncareful = \"yes\"",
            "[test]\nlock = true",
            "[test]\nlock = etcd",
            "[test]\nlock = \"etcd\"\nlock = \"redlock\"",
            "[check]\nsvgg = \"a.svg\"",
            "[client]\nx = 1",
        ];
        let refusals = cases.map(|case| {
            format!("{case}\n  -> {}", without_lists(&with(case, "fencepost test").unwrap_err()))
        });
        insta::assert_snapshot!(refusals.join("\n\n"));
    }
}
