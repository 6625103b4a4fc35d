//! A scenario file: TOML, read into a [`Scenario`]. The top holds for every run; a `[[run]]` adds to it.

use super::event;
use super::expect::Expectation;
use super::expect_table::ExpectTable;
use super::model::{Scenario, ScenarioRun, at, name_of};
use super::step::StepText;
use super::{keys, run_options};
use crate::run::script_player::{ClientScript, DirectedScript, Narration, Step};
use crate::settings::names::BadUsage;
use crate::settings::ranges::{HOUR, MILLISECOND, check_range};
use fencepost_history::TimeSpan;
use fencepost_history::mistake::{Mistake, MistakeInFile, read_table, tables};
use fencepost_history::run::read_settings;
use fencepost_nemesis::{FaultEntry, Trigger};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// How long a lock may take to become free once everything is healed, where a directed run does not say it.
const PROGRESS_WITHIN: Duration = Duration::from_secs(6);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioTable {
    about: String,
    #[serde(default)]
    source: String,
    expected: Option<String>,
    differs: Option<String>,
    #[serde(default)]
    picture: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RunTable {
    title: Option<String>,
    undisturbed: Option<bool>,
    progress_within: Option<Spanned<TimeSpan>>,
    #[serde(default)]
    client: Vec<ClientTable>,
    #[serde(default)]
    narration: BTreeMap<Spanned<String>, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ClientTable {
    name: Spanned<String>,
    script: Vec<Spanned<StepText>>,
    /// False where a fault keeps the client from the end of its script.
    #[serde(default = "yes")]
    finishes: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default)]
struct LevelTable<'a> {
    table: RunTable,
    faults: Vec<FaultEntry>,
    expectations: Vec<Expectation>,
    settings: DeTable<'a>,
}

/// Reads a scenario. `file` names it in mistakes. Errors: the first mistake, with its line.
pub(super) fn parse(name: &str, file: &str, text: &str) -> Result<Scenario, MistakeInFile> {
    read(name, file, text).map_err(|mistake| mistake.in_file(file, text))
}

/// Reads a user's scenario file. Errors: the file cannot be read, or has a mistake.
pub fn read_file(path: &Path) -> Result<Scenario, BadUsage> {
    let text = read_settings(path)
        .map_err(|error| BadUsage::new(format!("cannot read the scenario {}: {error}", path.display())))?;
    let scenario = parse(&name_of(path), &path.display().to_string(), &text);
    scenario.map_err(BadUsage::new)
}

/// Reads a scenario of this text, and validates its runs: for the fuzzer.
pub fn fuzz(text: &str) {
    if let Ok(scenario) = parse("fuzz", "fuzz.toml", text) {
        for run in &scenario.runs {
            let _ = run.spec(run.options().clone()).map_err(|mistake| scenario.error(mistake).to_string());
        }
    }
}

fn read(name: &str, file: &str, text: &str) -> Result<Scenario, Mistake> {
    let mut table = DeTable::parse(text).map_err(|error| Mistake::of_toml(&error))?.into_inner();
    let runs = take(&mut table, "run");
    let mut head = DeTable::new();
    move_keys(&mut table, &mut head, keys::SCENARIO);
    let top = level(table, 0..0)?;
    let runs = match runs {
        None => vec![run(&top, &LevelTable::default())?],
        Some(runs) => {
            let runs = tables(runs, "run")?;
            let runs = runs.into_iter().map(|(table, span)| run(&top, &level(table, span)?));
            runs.collect::<Result<_, _>>()?
        }
    };
    // Last, so that a misspelled key is called unknown before the right one is called missing.
    let head: ScenarioTable = read_own(&mut head, keys::SCENARIO, 0..0)?;
    let expected = head.expected.unwrap_or_else(|| in_words(&runs));
    Ok(Scenario {
        name: name.to_owned(),
        file: file.to_owned(),
        about: head.about,
        source: head.source,
        expected,
        differs: head.differs,
        picture: head.picture,
        runs,
        text: text.to_owned(),
    })
}

fn in_words(runs: &[ScenarioRun]) -> String {
    let run = |run: &ScenarioRun| {
        let about = run.expectations.iter().map(|each| each.about.clone()).collect::<Vec<_>>().join("; ");
        if run.title.is_empty() { about } else { format!("{}: {about}", run.title) }
    };
    runs.iter().map(run).collect::<Vec<_>>().join("; ")
}

fn take<'a>(table: &mut DeTable<'a>, key: &str) -> Option<Spanned<DeValue<'a>>> {
    let place = table.keys().find(|each| each.get_ref() == key)?.clone();
    table.remove(&place)
}

fn move_keys<'a>(from: &mut DeTable<'a>, to: &mut DeTable<'a>, keys: &[&str]) {
    for (key, value) in std::mem::take(from) {
        let goes = if keys.contains(&key.get_ref().as_ref()) { &mut *to } else { &mut *from };
        goes.insert(key, value);
    }
}

/// Takes the keys that a type knows out of the table, and reads it from them.
fn read_own<T: DeserializeOwned>(
    table: &mut DeTable<'_>,
    keys: &[&str],
    span: Range<usize>,
) -> Result<T, Mistake> {
    let mut own = DeTable::new();
    move_keys(table, &mut own, keys);
    read_table(own, span)
}

fn level(mut table: DeTable<'_>, span: Range<usize>) -> Result<LevelTable<'_>, Mistake> {
    let faults = match take(&mut table, "fault") {
        None => Vec::new(),
        Some(faults) => {
            let faults = tables(faults, "fault")?.into_iter();
            faults.map(|(table, span)| fault(&table, span)).collect::<Result<_, _>>()?
        }
    };
    let expectations = match take(&mut table, "expect") {
        None => Vec::new(),
        Some(expected) => {
            let expected = tables(expected, "expect")?.into_iter();
            expected.map(|(table, span)| ExpectTable::read(table, span)).collect::<Result<_, _>>()?
        }
    };
    let own = read_own(&mut table, keys::RUN, span)?;
    Ok(LevelTable { table: own, faults, expectations, settings: table })
}

fn fault(table: &DeTable<'_>, span: Range<usize>) -> Result<FaultEntry, Mistake> {
    let fault = FaultEntry::read(table, span)?;
    for event in fault.events() {
        event::check_point(event.get_ref()).map_err(|refusal| at(event.span(), refusal))?;
    }
    Ok(fault)
}

/// A run: what holds for all, and what it adds.
fn run(top: &LevelTable<'_>, own: &LevelTable<'_>) -> Result<ScenarioRun, Mistake> {
    named_once(&top.table.client)?;
    named_once(&own.table.client)?;
    let mut clients = top.table.client.clone();
    for client in &own.table.client {
        match clients.iter_mut().find(|each| each.name.get_ref() == client.name.get_ref()) {
            Some(same) => *same = client.clone(),
            None => clients.push(client.clone()),
        }
    }
    let scripts = (!clients.is_empty()).then_some(clients.len());
    let options = run_options::read(&top.settings, &own.settings, scripts)?;
    let faults: Vec<FaultEntry> = top.faults.iter().chain(&own.faults).cloned().collect();
    let mut narration = narration(&top.table)?;
    narration.extend(self::narration(&own.table)?);
    let expectations: Vec<Expectation> = top.expectations.iter().chain(&own.expectations).cloned().collect();
    if expectations.is_empty() {
        return Err(Mistake::new(0..0, "nothing is expected: add [[expect]], such as holds = \"all\""));
    }
    let waits = clients.iter().flat_map(|client| &client.script).filter_map(|step| match &step.get_ref().0 {
        Step::Wait(event) => Some(Spanned::new(step.span(), event.clone())),
        _ => None,
    });
    let mut events: Vec<Spanned<Trigger>> = waits.chain(faults.iter().flat_map(FaultEntry::events)).collect();
    events.extend(narration.iter().map(|each| Spanned::new(each.span(), each.get_ref().when.clone())));
    let names = clients.iter().map(|client| client.name.clone()).collect();
    let progress_within = own.table.progress_within.as_ref().or(top.table.progress_within.as_ref());
    let progress_within = progress_within.map_or(Ok(PROGRESS_WITHIN), length_within)?;
    let script = (!clients.is_empty()).then(|| DirectedScript {
        clients: clients.into_iter().map(client_script).collect(),
        narration: narration.into_iter().map(Spanned::into_inner).collect(),
        free_again: Some(progress_within),
    });
    Ok(ScenarioRun {
        title: own.table.title.clone().or_else(|| top.table.title.clone()).unwrap_or_default(),
        undisturbed: own.table.undisturbed.or(top.table.undisturbed).unwrap_or_default(),
        script,
        expectations,
        options,
        faults,
        events,
        clients: names,
    })
}

fn length_within(length: &Spanned<TimeSpan>) -> Result<Duration, Mistake> {
    let given = *length.get_ref();
    check_range("`progress-within`", given, &(MILLISECOND..=HOUR))
        .map(|()| given.0)
        .map_err(|refusal| Mistake::new(length.span(), refusal.sentence))
}

fn named_once(clients: &[ClientTable]) -> Result<(), Mistake> {
    for (at, client) in clients.iter().enumerate() {
        let name = client.name.get_ref();
        if clients[..at].iter().any(|earlier| earlier.name.get_ref() == name) {
            return Err(Mistake::new(
                client.name.span(),
                format!("there are two [[client]] of the name {name}"),
            ));
        }
    }
    Ok(())
}

fn client_script(client: ClientTable) -> ClientScript {
    ClientScript {
        client: client.name.into_inner(),
        steps: client.script.into_iter().map(|step| step.into_inner().0).collect(),
        finishes: client.finishes,
    }
}

fn narration(table: &RunTable) -> Result<Vec<Spanned<Narration>>, Mistake> {
    let mut entries: Vec<_> = table.narration.iter().collect();
    entries.sort_by_key(|(event, _)| event.span().start);
    let entries = entries.into_iter().map(|(text, sentence)| {
        let when = event::parse(text.get_ref()).map_err(|refusal| at(text.span(), refusal))?;
        Ok(Spanned::new(text.span(), Narration { when, sentence: sentence.clone() }))
    });
    entries.collect()
}
