//! Runs of a comparison that were played before: a run with the same settings is not played again.

use super::matrix::MatrixRun;
use fencepost_history::run::RunFile;
use fencepost_report::runs::Run;
use std::collections::HashMap;

pub struct JudgedRuns<'a> {
    by_seed: HashMap<u64, Vec<&'a Run>>,
}

impl<'a> JudgedRuns<'a> {
    pub fn of(runs: &'a [Run]) -> JudgedRuns<'a> {
        let mut by_seed: HashMap<u64, Vec<&Run>> = HashMap::new();
        for run in runs.iter().filter(|run| run.judgement().is_some()) {
            if let Some(file) = run.file() {
                by_seed.entry(file.spec.seed.0).or_default().push(run);
            }
        }
        JudgedRuns { by_seed }
    }

    /// What this run became, if it was played and judged.
    pub fn find(&self, planned: &MatrixRun) -> Option<&'a Run> {
        let same_seed = self.by_seed.get(&planned.spec.seed.0)?;
        let settings = planned.spec.options.settings();
        let files = |file: &RunFile| file.lock.as_ref().and_then(|lock| lock.files.clone());
        let is_this = |run: &&&Run| {
            run.file().is_some_and(|file| file.spec == settings && files(file) == planned.files)
        };
        same_seed.iter().find(is_this).copied()
    }
}
