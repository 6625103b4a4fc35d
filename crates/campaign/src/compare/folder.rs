//! Where a comparison is kept, so that one that was ended early can go on.

use super::judged_runs::JudgedRuns;
use super::matrix::Matrix;
use crate::parts::Durations;
use anyhow::{Context, Result};
use fencepost_engine::refuse;
use fencepost_history::Shard;
use fencepost_history::run::{append_regular, now, read_regular, timestamp, write_inside};
use fencepost_report::runs::Run;
use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// What a finished comparison leaves.
pub const COMPARE_JSON: &str = "compare.json";

impl Matrix {
    /// The folder of this comparison: that of an unfinished same one, whose seed it then takes on, or, if
    /// `fixed`, of one with the same seed; else a new one. Errors: the folder cannot be made.
    pub(super) fn folder(&mut self, results: &Path, fixed: bool) -> Result<PathBuf> {
        let mut known: Vec<(PathBuf, Matrix)> = kept(results);
        known.sort_by(|(one, _), (other, _)| other.cmp(one));
        let same = known.into_iter().find(|(path, other)| match fixed {
            true => other == self,
            false => {
                !path.join(COMPARE_JSON).exists() && Matrix { seed: self.seed, ..other.clone() } == *self
            }
        });
        if let Some((path, other)) = same {
            self.seed = other.seed;
            return Ok(path);
        }
        let part = of_part(self.shard);
        let path = results.join(format!("compare-{}-{}{part}", timestamp(now()), self.seed));
        fs::create_dir(&path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        let text = toml::to_string(self).context("cannot put the matrix into TOML")?;
        write_inside(&path, "matrix.toml", text.as_bytes())?;
        Ok(path)
    }
}

fn of_part(shard: Option<Shard>) -> String {
    shard.map_or(String::new(), |shard| format!("-{}", shard.in_file_names()))
}

fn kept(results: &Path) -> Vec<(PathBuf, Matrix)> {
    let entries = fs::read_dir(results).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("compare-"));
    ours.filter_map(|entry| {
        let text = read_regular(&entry.path().join("matrix.toml")).ok()?;
        Some((entry.path(), toml::from_str(&text).ok()?))
    })
    .collect()
}

/// Keeps others from making a comparison in this folder, as long as it lives; parts share no runs, and may.
pub(super) fn lock(results: &Path, shard: Option<Shard>) -> Result<File> {
    fs::create_dir_all(results)
        .with_context(|| format!("cannot make the results folder {}", results.display()))?;
    let path = results.join(format!(".compare{}.lock", of_part(shard)));
    let file = append_regular(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => refuse!(
            "another `fencepost compare` is at work in {}; wait for it, or use another --results",
            results.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// The runs of unfinished comparisons in this folder: the same command goes on from them.
pub fn runs_of_unfinished(results: &Path, runs: &[Run]) -> HashSet<PathBuf> {
    let unfinished = kept(results).into_iter().filter(|(path, _)| !path.join(COMPARE_JSON).exists());
    // However the runs were assigned: all of them stay.
    let plans = unfinished.filter_map(|(_, matrix)| matrix.undivided().plan(&Durations::default()).ok());
    let runs = JudgedRuns::of(runs);
    let planned_runs = plans.flat_map(|plan| plan.runs);
    planned_runs.filter_map(|planned| Some(runs.find(&planned.run)?.path.clone())).collect()
}
