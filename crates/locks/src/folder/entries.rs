//! Refuses entries of a `lock.toml` that fit its format and could never work, each at its line.

use super::file::CommandWords;
use super::texts::{self, START_TIME};
use fencepost_cluster::{Suite, check_file};
use fencepost_history::mistake::Mistake;
use fencepost_history::prose::second_of_a_name;
use fencepost_history::{Refusal, TimeSpan, printable};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The longest list, and the most options or variants.
const ENTRIES_MAX: usize = 1000;

const OF_COMMANDS: [&str; 10] = [
    "after-start",
    "args",
    "build",
    "setup",
    "prepare",
    "client",
    "version",
    "program",
    "leader",
    "transfer",
];

pub(super) fn check(table: &DeTable<'_>) -> Result<(), Mistake> {
    for (key, value) in table {
        check_size(key.get_ref(), value)?;
        match key.get_ref().as_ref() {
            "client" | "version" | "program" | "ready" | "leader" | "transfer" => check_command(value)?,
            name @ ("build" | "setup" | "prepare" | "after-start") => check_lines(name, value)?,
            "packages" => at_each(value, texts::check_package)?,
            "files" => at_each(value, |text| match text.trim().is_empty() {
                true => Err(Refusal::new("an empty text in `files`; each names a file or a folder")),
                false => Ok(()),
            })?,
            "suite" => at_each(value, |text| Suite::find(text).map(drop))?,
            "ttl-step" => at_time(value, |time| texts::ttl_step(Some(time)).map(drop))?,
            "start-time" => at_time(value, |time| texts::start_time(Some(time), START_TIME).map(drop))?,
            "options" => check_names("an option", value)?,
            "variants" => check_variants(table, value)?,
            "node" => at_each_table(value)?,
            "service" => value.get_ref().as_table().map_or(Ok(()), check)?,
            _ => {}
        }
    }
    Ok(())
}

fn at_each_table(value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    let entries = value.get_ref().as_array().into_iter().flat_map(|entries| entries.iter());
    entries.filter_map(|entry| entry.get_ref().as_table()).try_for_each(check)
}

/// Refuses what `files` names and what is not there, or could not be copied. Paths are relative to `folder`.
pub(super) fn check_files(table: &DeTable<'_>, folder: &Path) -> Result<(), Mistake> {
    let Some(files) = table.get("files") else { return Ok(()) };
    at_each(files, |text| {
        let checked = check_file(&folder.join(text)).map(drop);
        checked.map_err(|why| Refusal::new(format!("`files` names {}: {why}", printable(text))))
    })?;
    let name = |text: &str| Path::new(text).file_name().map(|name| name.to_string_lossy().into_owned());
    let entries = files.get_ref().as_array().into_iter().flat_map(|entries| entries.iter());
    let named: Vec<_> = entries.filter_map(|entry| Some((entry, name(entry.get_ref().as_str()?)?))).collect();
    let names: Vec<&String> = named.iter().map(|(_, name)| name).collect();
    match second_of_a_name(&names) {
        Some(at) => Err(Mistake::new(
            named[at].0.span(),
            format!(
                "two of `files` are called {}, and both are copied into one folder",
                printable(&named[at].1)
            ),
        )),
        None => Ok(()),
    }
}

fn check_size(key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    let size = match value.get_ref() {
        DeValue::Array(entries) => entries.len(),
        DeValue::Table(table) => table.len(),
        _ => return Ok(()),
    };
    if size > ENTRIES_MAX {
        return Err(Mistake::new(
            value.span(),
            format!("`{key}` has {size} entries; at most {ENTRIES_MAX} are possible"),
        ));
    }
    let entries: Vec<_> = value.get_ref().as_array().into_iter().flat_map(|entries| entries.iter()).collect();
    let texts: Vec<&str> = entries.iter().filter_map(|entry| entry.get_ref().as_str()).collect();
    match second_of_a_name(&texts) {
        Some(at) if texts.len() == entries.len() && !OF_COMMANDS.contains(&key) && key != "ready" => {
            Err(Mistake::new(
                entries[at].span(),
                format!("`{key}` names {} twice; name it once", printable(texts[at])),
            ))
        }
        _ => Ok(()),
    }
}

fn check_command(value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    let command = match value.get_ref() {
        DeValue::String(line) => CommandWords::Line(line.to_string()),
        DeValue::Array(words) => {
            let words: Option<_> =
                words.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect();
            let Some(words) = words else { return Ok(()) };
            CommandWords::List(words)
        }
        _ => return Ok(()),
    };
    command.words().map(drop).map_err(|refusal| Mistake::of(value.span(), refusal))
}

fn check_lines(key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    at_each(value, |line| match line.trim().is_empty() {
        true => Err(format!("an empty command in `{key}`; leave it out").into()),
        false => Ok(()),
    })
}

/// Names of options and variants are on command lines: `--option NAME=VALUE,…`, `--locks FOLDER@VARIANT,…`.
fn check_names(what: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    let is_of_names = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let is_name = |name: &str| name.starts_with(char::is_alphanumeric) && name.chars().all(is_of_names);
    let mut keys = value.get_ref().as_table().into_iter().flat_map(|table| table.keys());
    match keys.find(|key| !is_name(key.get_ref())) {
        Some(key) => Err(Mistake::new(
            key.span(),
            format!(
                "{:?} is no name of {what}: it has letters, digits, `-`, `_` and `.`, and begins with a letter or a digit",
                key.get_ref().as_ref()
            ),
        )),
        None => Ok(()),
    }
}

fn check_variants(file: &DeTable<'_>, value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    check_names("a variant", value)?;
    let options = file.get("options").and_then(|options| options.get_ref().as_table());
    for (name, variant) in value.get_ref().as_table().into_iter().flat_map(|table| table.iter()) {
        let Some(variant) = variant.get_ref().as_table() else { continue };
        let entries = variant.iter().filter(|(key, _)| key.get_ref() != "options");
        check(&entries.map(|(key, value)| (key.clone(), value.clone())).collect())?;
        let set = variant.get("options").and_then(|set| set.get_ref().as_table());
        let is_known = |key: &&Spanned<DeString<'_>>| {
            options.is_some_and(|options| options.contains_key(key.get_ref().as_ref()))
        };
        if let Some(unknown) = set.into_iter().flat_map(|set| set.keys()).find(|key| !is_known(key)) {
            let (name, option) = (printable(name.get_ref()), printable(unknown.get_ref()));
            return Err(Mistake::new(
                unknown.span(),
                format!("the variant {name} sets the option {option}, which has no table [options.{option}]"),
            ));
        }
    }
    Ok(())
}

fn at_each(value: &Spanned<DeValue<'_>>, check: impl Fn(&str) -> Result<(), Refusal>) -> Result<(), Mistake> {
    let one = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => check(text).map_err(|refusal| Mistake::of(value.span(), refusal)),
        _ => Ok(()),
    };
    match value.get_ref() {
        DeValue::Array(values) => values.iter().try_for_each(one),
        _ => one(value),
    }
}

fn at_time(
    value: &Spanned<DeValue<'_>>,
    check: impl Fn(TimeSpan) -> Result<(), Refusal>,
) -> Result<(), Mistake> {
    at_each(value, |text| text.parse().map_or(Ok(()), &check))
}
