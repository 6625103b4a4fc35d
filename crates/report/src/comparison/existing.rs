//! A comparison of runs that exist.

use super::model::{Comparison, MadeRun, Row, cell};
use crate::runs::Run;
use std::collections::{BTreeMap, BTreeSet};

/// Compares runs that exist: a row for each lock, guard and setting, a column for each nemesis, in the order
/// of `nemesis_order`. Directed scenarios are left out: they prove what they are made to prove.
pub fn of_runs(runs: &[Run], nemesis_order: &[&str]) -> Comparison {
    let mut rows: BTreeMap<(String, String, String), BTreeMap<String, Vec<&Run>>> = BTreeMap::new();
    let mut left_out = Vec::new();
    for run in runs {
        let file = match (run.file(), run.problem()) {
            (Some(file), None) if file.spec.scenario.is_none() => file,
            (Some(_), None) => continue,
            (_, trouble) => {
                left_out.push(format!("{}: {}", run.name, trouble.unwrap_or("it cannot be read")));
                continue;
            }
        };
        let spec = &file.spec;
        let row = (spec.lock.clone(), spec.guard.clone(), file.settings.clone());
        rows.entry(row).or_default().entry(spec.nemesis_name()).or_default().push(run);
    }
    let nemeses = nemeses(rows.values().flat_map(BTreeMap::keys), nemesis_order);
    let rows = rows.into_iter().map(|((lock, guard, settings), mut by_nemesis)| {
        let runs: Vec<Vec<MadeRun>> =
            nemeses.iter().map(|name| oldest_first(by_nemesis.remove(name))).collect();
        let servers: BTreeSet<&String> = runs.iter().flatten().flat_map(|run| &run.servers).collect();
        let servers = servers.into_iter().cloned().collect();
        Row { lock, guard, settings, servers, cells: runs.into_iter().map(cell).collect() }
    });
    Comparison {
        fencepost: env!("CARGO_PKG_VERSION").to_owned(),
        command: String::new(),
        rows: rows.collect(),
        nemeses,
        against: None,
        left_out,
        missing: Vec::new(),
    }
}

fn oldest_first(runs: Option<Vec<&Run>>) -> Vec<MadeRun> {
    let mut runs = runs.unwrap_or_default();
    runs.sort_by_key(|run| (run.file().map(|file| file.started), &run.name));
    runs.into_iter().filter_map(MadeRun::of).collect()
}

/// Without faults first, then in the given order, then combinations by name.
fn nemeses<'a>(names: impl Iterator<Item = &'a String>, known: &[&str]) -> Vec<String> {
    let place = |name: &str| match name {
        "none" => 0,
        name => 1 + known.iter().position(|known| *known == name).unwrap_or(known.len()),
    };
    let mut names: Vec<String> = names.cloned().collect();
    names.sort_by(|one, other| (place(one), one).cmp(&(place(other), other)));
    names.dedup();
    names
}
