//! Begins a comparison, or its part, or goes on with one that was ended early: existing runs are done.

use super::folder::lock;
use super::judged_runs::JudgedRuns;
use super::matrix::{Matrix, MatrixRun};
use super::merged::CellRecord;
use super::play::ComparePlay;
use crate::context::CampaignContext;
use crate::parts::{CampaignKind, Durations, PartFile, PartWriter, RunRecord, records_before};
use crate::sitting::{PlannedRun, Sitting};
use anyhow::Result;
use fencepost_history::Shard;
use fencepost_report::comparison::MadeRun;
use fencepost_report::runs;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;

/// A comparison that can begin: no other process plays the same runs.
pub struct CompareStart {
    matrix: Matrix,
    durations: Durations,
    seeds: HashSet<String>,
    alone: File,
}

impl CompareStart {
    /// In this folder, with earlier runs' lengths if named. Errors: nothing to run, no durations, or in use.
    pub fn new(matrix: Matrix, durations: Option<&Path>, results: &Path) -> Result<CompareStart> {
        let durations = Durations::read_if_named(durations)?;
        let seeds = matrix.plan(&durations)?.seeds();
        let alone = lock(results, matrix.shard)?;
        Ok(CompareStart { matrix, durations, seeds, alone })
    }

    pub fn can_have_made(&self, folder: &str) -> bool {
        folder.rsplit('-').next().is_some_and(|seed| self.seeds.contains(seed))
    }

    /// Begins it; without `seed_given` resumes the same of any seed. Errors: unreadable or unwritable.
    pub fn begin(self, seed_given: bool, context: CampaignContext) -> Result<Sitting<ComparePlay>> {
        let CompareStart { mut matrix, durations, alone, .. } = self;
        let folder = matrix.folder(&context.results, seed_given)?;
        let plan = matrix.plan(&durations)?;
        let file = PartFile::begun(
            CampaignKind::Compare,
            matrix.undivided().command(&context.repeat),
            matrix.seed,
            matrix.shard.unwrap_or(Shard::WHOLE),
            &plan.assignment,
            serde_json::to_value(&plan.campaign)?,
        );
        let outcomes = made_before(&plan.runs, &context.results)?;
        let keys = plan.runs.iter().map(|run| &run.key);
        let part = PartWriter::begin(&folder, file, keys, records(&folder, &outcomes)?)?;
        let command = matrix.command(&context.repeat);
        let layout = plan.campaign;
        let play = ComparePlay { layout, seed: matrix.seed, command, folder, context, _alone: alone };
        Ok(Sitting::new(play, plan.runs, outcomes, Some(part)))
    }
}

fn made_before(planned: &[PlannedRun<MatrixRun>], results: &Path) -> Result<BTreeMap<u64, CellRecord>> {
    let runs = runs::all(results)?;
    let judged = JudgedRuns::of(&runs);
    let made = |planned: &PlannedRun<MatrixRun>| {
        Some((planned.key.number, CellRecord::Made(MadeRun::of(judged.find(&planned.run)?)?)))
    };
    Ok(planned.iter().filter_map(made).collect())
}

/// A record for each run that is there. How long it took is known from an earlier sitting.
fn records(folder: &Path, made: &BTreeMap<u64, CellRecord>) -> Result<Vec<RunRecord>> {
    let mut earlier = records_before(folder);
    let record = |(number, made): (&u64, &CellRecord)| {
        let took_ms = earlier.remove(number).and_then(|record| {
            let kept: CellRecord = serde_json::from_str(record.value.get()).ok()?;
            record.took_ms.filter(|_| kept.folder_name() == made.folder_name())
        });
        RunRecord::new(*number, true, took_ms, made)
    };
    made.iter().map(record).collect()
}
