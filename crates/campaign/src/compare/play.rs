//! Plays the runs of a comparison, and sums them up.

use super::judged_runs::JudgedRuns;
use super::matrix::{Matrix, MatrixPlan, MatrixRun};
use super::merged::{CellRecord, CompareCampaign, summed_up};
use crate::context::CampaignContext;
use crate::lines::ProgressLine;
use crate::parts::{CampaignKind, PartFile, PartWriter, Record, RunKey, records_before};
use crate::play_run::{RunPlace, play_run};
use crate::sitting::{Campaign, Count, PlannedRun, Sitting};
use anyhow::{Context, Result};
use fencepost_engine::RunSpec;
use fencepost_history::Shard;
use fencepost_report::comparison::{Comparison, MadeRun};
use fencepost_report::runs;
use std::collections::BTreeMap;
use std::path::Path;

/// A comparison that is played.
pub struct ComparePlay {
    pub layout: CompareCampaign,
    context: CampaignContext,
}

/// Begins a comparison, or its part, in its folder, or goes on with it: the runs that are there are done.
///
/// # Errors
/// The folder of all runs cannot be read, or that of the comparison not be written.
pub fn begin(
    matrix: &Matrix,
    plan: MatrixPlan,
    folder: &Path,
    context: CampaignContext,
) -> Result<Sitting<ComparePlay>> {
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
    let part = PartWriter::begin(folder, file, keys, records(folder, &outcomes)?)?;
    Ok(Sitting::new(ComparePlay { layout: plan.campaign, context }, plan.runs, outcomes, Some(part)))
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
fn records(folder: &Path, made: &BTreeMap<u64, CellRecord>) -> Result<Vec<Record>> {
    let mut earlier = records_before(folder);
    let record = |(number, made): (&u64, &CellRecord)| {
        let took_ms = earlier.remove(number).and_then(|record| {
            let kept: CellRecord = serde_json::from_str(record.value.get()).ok()?;
            record.took_ms.filter(|_| kept.folder_name() == made.folder_name())
        });
        Record::new(*number, true, took_ms, made)
    };
    made.iter().map(record).collect()
}

impl Campaign for ComparePlay {
    type Run = MatrixRun;
    type Outcome = CellRecord;

    /// A run that Ctrl-C ended is as if it had not begun.
    async fn play(&self, planned: &PlannedRun<MatrixRun>) -> Option<CellRecord> {
        match self.make(&planned.run).await {
            Err(_) if self.context.stop.reason().is_some() => None,
            Err(error) => Some(CellRecord::Failed(format!("{error:#}"))),
            Ok(made) => Some(CellRecord::Made(made)),
        }
    }

    fn is_done(outcome: &CellRecord) -> bool {
        matches!(outcome, CellRecord::Made(_))
    }

    fn line(&self, run: &RunKey, outcome: &CellRecord, count: &Count) -> Option<String> {
        let Count { ended, all, left } = count;
        let outcome = match outcome {
            CellRecord::Made(made) => made.judgement.outcome.to_string(),
            CellRecord::Failed(why) => format!("failed: {why}"),
        };
        let after = if ended < all { format!(" · {left}") } else { String::new() };
        Some(format!("{ended:>4}/{all}  {}: {outcome}{after}", run.label))
    }
}

impl ComparePlay {
    async fn make(&self, run: &MatrixRun) -> Result<MadeRun> {
        run.check_files()?;
        let CampaignContext { player, results, store, stop, repeat, .. } = &self.context;
        let place = RunPlace { player: &**player, results, report: true, stop };
        let command = |_: &Path| repeat.test(&run.spec.options);
        let folder = play_run(&run.spec, None, command, place).await?.folder;
        store.send(&folder).await;
        let made = runs::read(&folder).as_ref().and_then(MadeRun::of);
        made.with_context(|| format!("the run {} was not judged", folder.display()))
    }
}

impl Sitting<ComparePlay> {
    /// Plays what is left. An outcome that cannot be recorded is a failure of its run, which stays to be done.
    pub async fn make_runs(&mut self, jobs: usize, progress: &ProgressLine) {
        let context = self.campaign.context.clone();
        let specs: Vec<&RunSpec> = self.left().map(|planned| &planned.run.spec).collect();
        context.player.prepare(&specs, &context.stop).await;
        for (number, error) in self.play(jobs, &context, progress).await {
            self.set_outcome(number, CellRecord::Failed(format!("{error:#}")));
        }
    }

    /// How many runs failed.
    pub fn failed(&self) -> usize {
        self.outcomes().values().filter(|record| matches!(record, CellRecord::Failed(_))).count()
    }

    /// What came of it. Runs that other parts play are not missing here.
    ///
    /// # Errors
    /// None in practice: all that it takes is known.
    pub fn comparison(&self, command: String) -> Result<Comparison> {
        let mut comparison = summed_up(&self.campaign.layout, |run| Ok(self.outcomes().get(&run).cloned()))?;
        comparison.command = command;
        comparison.rows.iter_mut().flat_map(|row| &mut row.cells).for_each(|cell| cell.missing = 0);
        Ok(comparison)
    }
}
