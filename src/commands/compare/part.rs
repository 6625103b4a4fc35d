//! What a comparison, or its part, keeps for `fencepost merge`: what it was dealt, and a record of each run.

use super::matrix::{JudgedRuns, Matrix, MatrixPlan, MatrixRun};
use anyhow::{Context, Result};
use fencepost_history::Shard;
use fencepost_report::comparison::{CellRecord, MadeRun};
use fencepost_report::parts::{CampaignKind, DealtRun, PartFile, PartWriter, Record, records_before};
use fencepost_report::runs::{self, Run};
use std::path::Path;
use std::time::Duration;

/// A comparison, or its part, that is being made.
pub struct Part(PartWriter);

impl Part {
    /// Writes what is to be done, and what was done before (`runs` are those that exist).
    ///
    /// # Errors
    /// A file of the folder cannot be written.
    pub fn begin(folder: &Path, matrix: &Matrix, plan: &MatrixPlan, runs: &[Run]) -> Result<Part> {
        let file = PartFile::begun(
            CampaignKind::Compare,
            Matrix { shard: None, ..matrix.clone() }.command(),
            matrix.seed,
            matrix.shard.unwrap_or(Shard::WHOLE),
            &plan.deal,
            serde_json::to_value(&plan.campaign)?,
        );
        let dealt = |planned: &MatrixRun| DealtRun {
            run: planned.run,
            label: planned.label.clone(),
            name: plan.campaign.name(planned.run).unwrap_or_default(),
        };
        let dealt = plan.runs.iter().map(dealt).collect();
        Ok(Part(PartWriter::begin(folder, file, dealt, records_of(folder, plan, runs)?)?))
    }

    /// Keeps what came of a run: its folder, or why there is none.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn note(&self, planned: &MatrixRun, played: Result<&Path, String>, took: Duration) -> Result<()> {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let record = match played {
            Ok(folder) => {
                let run = runs::read(folder);
                let made = run.as_ref().and_then(MadeRun::of);
                let made = made.with_context(|| format!("the run {} was not judged", folder.display()))?;
                Record::new(planned.run, true, Some(took_ms), &CellRecord::Made(made))?
            }
            Err(why) => Record::new(planned.run, false, None, &CellRecord::Failed(why))?,
        };
        self.0.add(&record)
    }

    /// Notes that nothing more will be done; `finished`: all runs were made.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn end(self, finished: bool) -> Result<()> {
        self.0.end(finished)
    }
}

/// A record for each run that is there. How long it took is known from an earlier sitting.
fn records_of(folder: &Path, plan: &MatrixPlan, runs: &[Run]) -> Result<Vec<Record>> {
    let earlier = records_before(folder);
    let judged = JudgedRuns::of(runs);
    let mut records = Vec::new();
    for planned in &plan.runs {
        let Some(made) = planned.made(&judged).and_then(MadeRun::of) else { continue };
        let took_ms = earlier.get(&planned.run).and_then(|record| {
            match serde_json::from_str(record.value.get()).ok()? {
                CellRecord::Made(kept) if kept.name == made.name => record.took_ms,
                _ => None,
            }
        });
        records.push(Record::new(planned.run, true, took_ms, &CellRecord::Made(made))?);
    }
    Ok(records)
}
