//! Options of a scenario's run: the keys and values of `fencepost.toml`, in the one type for them.

use super::keys;
use crate::settings::names::{BadUsage, unknown};
use crate::settings::option_facts::{InScenario, in_scenario};
use crate::settings::options::RunOptions;
use clap::{Args, Command};
use fencepost_history::TimeSpan;
use fencepost_history::mistake::{Mistake, read_table};
use std::ops::Range;
use std::sync::LazyLock;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Ends a directed run that hangs.
const TIME_LIMIT: TimeSpan = TimeSpan::from_secs(40);

static KNOWN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let command = RunOptions::augment_args(Command::new("run"));
    let names = command.get_arguments().filter_map(|arg| arg.get_long());
    names.filter(|name| !matches!(in_scenario(name), InScenario::Refused(_))).map(str::to_owned).collect()
});

#[derive(Clone, Debug)]
pub(super) struct PlacedOptions {
    pub options: RunOptions,
    places: Vec<(String, Range<usize>)>,
}

/// Reads options; `own` overrides `top`. `clients`: the number of scripts. Errors: a bad key or value.
pub(super) fn read(
    top: &DeTable<'_>,
    own: &DeTable<'_>,
    clients: Option<usize>,
) -> Result<PlacedOptions, Mistake> {
    let known: Vec<&str> = KNOWN.iter().map(String::as_str).chain(keys::all()).collect();
    let mut merged = DeTable::new();
    let mut places: Vec<(String, Range<usize>)> = Vec::new();
    for (key, value) in own.iter().chain(top) {
        let name = key.get_ref().as_ref();
        if let InScenario::Refused(instead) = in_scenario(name) {
            return Err(Mistake::new(key.span(), format!("`{name}` is not part of a scenario: {instead}")));
        }
        if !known.contains(&name) {
            return Err(Mistake::new(key.span(), unknown("key", name, &known)));
        }
        if places.iter().all(|(other, _)| other != name) {
            check(key, value)?;
            places.push((name.to_owned(), value.span()));
            merged.insert(key.clone(), value.clone());
        }
    }
    let mut options: RunOptions = read_table(merged, 0..0)?;
    if let Some(clients) = clients {
        let given = |key: &str| places.iter().any(|(name, _)| name == key);
        if !given("clients") {
            options.clients = clients;
        }
        if !given("concurrency") {
            options.concurrency = clients;
        }
        if !given("time-limit") {
            options.time_limit = TIME_LIMIT;
        }
    }
    Ok(PlacedOptions { options, places })
}

/// Reads one option by itself, so that a mistake is at its value.
fn check(key: &Spanned<toml::de::DeString<'_>>, value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    let one: DeTable<'_> = [(key.clone(), value.clone())].into_iter().collect();
    read_table(one, 0..0)
        .map(|_: RunOptions| ())
        .map_err(|mistake| Mistake { at: value.span().start, ..mistake })
}

impl PlacedOptions {
    pub(super) fn mistake(&self, refused: BadUsage) -> Mistake {
        let place_of = |option: &str| self.places.iter().find(|(name, _)| name == option);
        let place = refused.key.as_deref().and_then(place_of).or_else(|| place_of("lock"));
        Mistake::new(place.map_or(0..0, |(_, span)| span.clone()), refused.sentence)
    }
}
