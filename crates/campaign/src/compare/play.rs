//! Plays the runs of a comparison, and sums them up.

use super::matrix::MatrixRun;
use super::merged::{CellRecord, CompareCampaign, summed_up};
use crate::context::CampaignContext;
use crate::lines::ProgressLine;
use crate::parts::RunKey;
use crate::play_run::{RunPlace, play_run};
use crate::sitting::{Campaign, Count, PlannedRun, Sitting};
use anyhow::{Context, Result};
use fencepost_engine::RunSpec;
use fencepost_history::Seed;
use fencepost_report::comparison::{Comparison, MadeRun};
use fencepost_report::runs;
use std::fs::File;
use std::path::{Path, PathBuf};

pub struct ComparePlay {
    pub layout: CompareCampaign,
    pub seed: Seed,
    /// Repeats it.
    pub command: String,
    pub folder: PathBuf,
    pub(super) context: CampaignContext,
    pub(super) _alone: File,
}

impl Campaign for ComparePlay {
    type Run = MatrixRun;
    type Outcome = CellRecord;

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
        Some(format!("{ended:>4}/{all}  {}: {outcome}{left}", run.label))
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
    /// Plays what is left. An outcome that cannot be recorded is a failure of its run, which stays open.
    pub async fn make_runs(&mut self, jobs: usize, progress: &ProgressLine) {
        let context = self.campaign.context.clone();
        let specs: Vec<&RunSpec> = self.left().map(|planned| &planned.run.spec).collect();
        context.player.prepare(&specs, &context.stop).await;
        for (number, error) in self.play(jobs, &context, progress).await {
            self.outcomes.insert(number, CellRecord::Failed(format!("{error:#}")));
        }
    }

    pub fn failed(&self) -> usize {
        self.outcomes.values().filter(|record| matches!(record, CellRecord::Failed(_))).count()
    }

    /// The result. Runs that other parts play are not missing here. Errors: none in practice.
    pub fn comparison(&self) -> Result<Comparison> {
        let mut comparison = summed_up(&self.campaign.layout, |run| Ok(self.outcomes.get(&run).cloned()))?;
        comparison.command.clone_from(&self.campaign.command);
        comparison.rows.iter_mut().flat_map(|row| &mut row.cells).for_each(|cell| cell.missing = 0);
        Ok(comparison)
    }
}
