//! A comparison from the records of its parts, cell by cell: there may be more runs than fit into memory.

use crate::parts::Sources;
use anyhow::Result;
use fencepost_report::comparison::{Comparison, MadeRun, cell};
use fencepost_report::prepare_threads;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CompareCampaign {
    /// The comparison without any run: its rows and columns, and which combinations there cannot be.
    pub layout: Comparison,
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
    Failed(String),
}

impl CellRecord {
    pub fn folder_name(&self) -> Option<&str> {
        match self {
            CellRecord::Made(made) => Some(&made.name),
            CellRecord::Failed(_) => None,
        }
    }
}

/// The comparison of these parts. Errors: the parts cannot be read, or are of another version.
pub fn merge(sources: &Sources) -> Result<(CompareCampaign, Comparison)> {
    let campaign: CompareCampaign = sources.campaign()?;
    let mut comparison = summed_up(&campaign, |run| {
        let mut record = sources.outcome(run)?;
        if let Some(CellRecord::Made(made)) = &mut record {
            made.path = sources.runs_in(run).join(&made.name);
        }
        Ok(record)
    })?;
    comparison.command.clone_from(&sources.merged.file.command);
    comparison.missing = sources.missing();
    Ok((campaign, comparison))
}

/// The comparison. `record` gives the record of a run, by its number, with its folder, if it is there.
pub fn summed_up(
    campaign: &CompareCampaign,
    record: impl Fn(u64) -> Result<Option<CellRecord>> + Sync,
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
                    Some(CellRecord::Failed(why)) => failures.push(why),
                    Some(CellRecord::Made(made)) => {
                        servers.extend(made.servers.iter().cloned());
                        runs.push(made);
                    }
                }
            }
            let mut cell = cell(runs);
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
    comparison.compare_with_reference();
    Ok(comparison)
}
