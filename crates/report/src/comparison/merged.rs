//! A comparison from the records of its parts, a cell after the other: there may be more runs than fit into memory.

use super::model::{Comparison, JudgedRun, cell_of, versions};
use crate::runs::{Judgement, Run};
use crate::threads::prepare_threads;
use anyhow::Result;
use fencepost_history::Seed;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What all parts of a comparison have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CompareCampaign {
    /// The comparison without any run: its rows and columns, and which combinations there cannot be.
    pub layout: Comparison,
    /// Runs of each combination.
    pub runs: usize,
    /// What was asked for, in the form of the command.
    pub matrix: Value,
}

impl CompareCampaign {
    /// The number of a run in the campaign: row by row, cell by cell.
    pub fn run(&self, row: usize, column: usize, number: usize) -> u64 {
        ((row * self.layout.nemeses.len() + column) * self.runs + number - 1) as u64
    }

    /// How many runs there are in all parts together.
    pub fn possible_runs(&self) -> usize {
        let cells = self.layout.rows.iter().flat_map(|row| &row.cells);
        cells.filter(|cell| cell.not_applicable.is_none()).count() * self.runs
    }

    /// The combination of a run of that number: `redlock with token under clock-jump`.
    pub fn name(&self, run: u64) -> Option<String> {
        let cell = run as usize / self.runs.max(1);
        let columns = self.layout.nemeses.len().max(1);
        let (row, nemesis) =
            (self.layout.rows.get(cell / columns)?, self.layout.nemeses.get(cell % columns)?);
        Some(combination(&row.lock, &row.guard, nemesis))
    }
}

/// `redlock under clock-jump`, `etcd with token under pause`.
pub fn combination(lock: &str, guard: &str, nemesis: &str) -> String {
    let guarded = if guard == "none" { String::new() } else { format!(" with {guard}") };
    format!("{lock}{guarded} under {nemesis}")
}

/// What came of a run of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellRecord {
    Made(MadeRun),
    /// Why there is no run.
    Failed(String),
}

/// What a cell takes of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MadeRun {
    /// Its folder's name.
    pub name: String,
    pub seed: Seed,
    /// Repeats it.
    pub command: String,
    /// Versions of the servers.
    pub servers: Vec<String>,
    pub judgement: Arc<Judgement>,
}

impl MadeRun {
    /// Of a run that was judged.
    pub fn of(run: &Run) -> Option<MadeRun> {
        let (file, judgement) = (run.file()?, run.judgement()?);
        Some(MadeRun {
            name: run.name.clone(),
            seed: file.spec.seed,
            command: file.command.clone(),
            servers: versions(file.servers.iter()),
            judgement: judgement.clone(),
        })
    }
}

/// A record, and the folder in which the folder of its run lies.
pub struct PlacedRecord {
    pub record: CellRecord,
    pub runs_in: PathBuf,
}

/// The comparison. `record` gives what came of a run, by its number in the campaign; none where it is missing.
///
/// # Errors
/// Those of `record`.
pub fn merged(
    campaign: &CompareCampaign,
    record: impl Fn(u64) -> Result<Option<PlacedRecord>> + Sync,
) -> Result<Comparison> {
    let columns = campaign.layout.nemeses.len();
    let places =
        (0..campaign.layout.rows.len()).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let possible = |&(row, column): &(usize, usize)| {
        campaign.layout.rows[row].cells.get(column).is_some_and(|cell| cell.not_applicable.is_none())
    };
    let places: Vec<(usize, usize)> = places.filter(possible).collect();
    prepare_threads();
    let cells: Vec<_> = places
        .par_iter()
        .map(|&(row, column)| {
            let (mut runs, mut failures, mut missing) = (Vec::new(), Vec::new(), 0);
            let mut servers = BTreeSet::new();
            for number in 1..=campaign.runs {
                match record(campaign.run(row, column, number))? {
                    None => missing += 1,
                    Some(PlacedRecord { record: CellRecord::Failed(why), .. }) => failures.push(why),
                    Some(PlacedRecord { record: CellRecord::Made(made), runs_in }) => {
                        servers.extend(made.servers.iter().cloned());
                        runs.push(judged_run(made, &runs_in));
                    }
                }
            }
            let mut cell = cell_of(runs);
            (cell.failures, cell.missing) = (failures, missing);
            Ok((row, column, cell, servers))
        })
        .collect::<Result<_>>()?;
    let mut comparison = campaign.layout.clone();
    for (row, column, cell, servers) in cells {
        let row = &mut comparison.rows[row];
        row.servers.extend(servers);
        row.cells[column] = cell;
    }
    for row in &mut comparison.rows {
        row.servers.sort();
        row.servers.dedup();
    }
    Ok(comparison)
}

fn judged_run(made: MadeRun, runs_in: &Path) -> JudgedRun {
    let path = runs_in.join(&made.name);
    let MadeRun { name, seed, command, judgement, .. } = made;
    JudgedRun { name, seed, command, path, judgement }
}
