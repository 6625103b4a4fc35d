//! The options of `fencepost compare`.

use super::report::ComparisonFiles;
use crate::config::{comes_from_file, is_called_with};
use crate::store::Results;
use clap::Args;
use fencepost_campaign::compare::Matrix;
use fencepost_engine::{
    BadUsage, JOBS_MAX, RUNS_MAX, RunOptions, check_count, grouped_without_servers, name_in_list, refuse,
    refuse_option,
};
use fencepost_history::{Seed, Shard};
use std::collections::BTreeMap;
use std::path::PathBuf;

const SEED: &str = "Seed from which all runs draw their seeds [default: that of the same comparison if it was \
                    ended early, else a fresh one]";

/// Runs every lock under every nemesis, and shows in one matrix which properties hold. A comparison that was
/// ended early goes on where it was when the same command is given again.
///
/// Exit code: 0 once all runs are judged, whatever their verdicts; with --baseline 1 if a property that held
/// is violated; 255 if a run failed.
#[derive(Debug, Args)]
#[command(
    mut_args(grouped_without_servers),
    mut_arg("lock", |arg| arg.hide(true)),
    mut_arg("nemesis", |arg| arg.hide(true)),
    mut_arg("nemesis_file", |arg| arg.hide(true)),
    mut_arg("guard", |arg| arg.hide(true)),
    mut_arg("seed", |arg| arg.help(SEED)),
)]
pub struct CompareArgs {
    /// The locks to compare, a row for each, or `all` (see `fencepost list locks`).
    #[arg(
        long,
        visible_alias = "backends",
        value_delimiter = ',',
        value_parser = name_in_list,
        default_value = "redis-single,redlock,etcd,zookeeper-sequential"
    )]
    pub locks: Vec<String>,
    /// The nemeses: a column for each, or `all`; several at once are joined by `+` (see
    /// `fencepost list nemeses`).
    #[arg(long, value_delimiter = ',', value_parser = name_in_list, default_value = "none,clock-jump,pause,delay,partition,power-loss")]
    pub nemeses: Vec<String>,
    /// The guards of the storage: a row for each (see `fencepost list guards`).
    #[arg(long, value_delimiter = ',', value_parser = name_in_list, default_value = "none")]
    pub guards: Vec<String>,
    /// Reference lock, on the same servers: the output says what each other lock does worse and better. The
    /// reference gets a row of its own, and all rows have the same seeds. `none` compares nothing.
    #[arg(long, value_name = "LOCK")]
    pub against: Option<String>,
    /// Runs of each combination.
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// Number of runs side by side.
    #[arg(long, default_value_t = 1)]
    pub jobs: usize,
    /// Make only one part of the runs, such as 1/4; `fencepost merge` merges the parts. Needs --seed.
    #[arg(long, value_name = "K/N", conflicts_with = "from")]
    pub shard: Option<Shard>,
    /// Lengths of earlier runs: the durations.json of a part or merge. All parts need the same file.
    #[arg(long, value_name = "FILE", requires = "shard")]
    pub durations: Option<PathBuf>,
    /// Compare existing runs, and make no new ones: folders of runs, or folders or object stores that hold
    /// such folders.
    #[arg(long, value_name = "FOLDER", num_args = 1.., conflicts_with_all = ["locks", "nemeses", "guards", "against", "runs", "seed"])]
    pub from: Vec<PathBuf>,
    #[command(flatten)]
    pub files: ComparisonFiles,
    /// Folder of all runs, or an object store that they are sent to (s3://BUCKET/PREFIX, gs://…, az://…,
    /// file:///FOLDER).
    #[arg(long, default_value = "results", value_name = "FOLDER|STORE")]
    pub results: Results,
    #[command(flatten)]
    pub options: RunOptions,
}

impl CompareArgs {
    /// What is to be compared. Errors: an unknown name, or an option that has no effect.
    pub fn matrix(&self) -> Result<Matrix, BadUsage> {
        check_count("--runs", self.runs, RUNS_MAX)?;
        check_count("--jobs", self.jobs, JOBS_MAX)?;
        self.check_unused()?;
        if self.shard.is_some() && self.options.seed.is_none() {
            refuse_option!("shard", "--shard needs --seed: all parts draw their runs from the same one");
        }
        let matrix = Matrix {
            seed: self.options.seed.unwrap_or_else(Seed::fresh),
            shard: self.shard,
            against: self.against.clone(),
            runs: self.runs,
            locks: self.locks.clone(),
            guards: self.guards.clone(),
            nemeses: self.nemeses.clone(),
            options: RunOptions { seed: None, ..self.options.clone() },
            files: BTreeMap::new(),
        };
        matrix.checked(comes_from_file)
    }

    fn check_unused(&self) -> Result<(), BadUsage> {
        let RunOptions { lock, guard, nemesis, nemesis_file, .. } = &self.options;
        let default = RunOptions::default();
        let given = [
            (*lock != default.lock || is_called_with("lock"), "--lock", "--locks"),
            (*guard != default.guard, "--guard", "--guards"),
            (nemesis != &["none"], "--nemesis", "--nemeses"),
            (nemesis_file.is_some(), "--nemesis-file", "--nemeses"),
        ];
        match given.into_iter().find(|(given, ..)| *given) {
            Some((_, option, list)) => {
                refuse!("{option} is an option of `fencepost test`; use {list} to compare several")
            }
            None => Ok(()),
        }
    }
}
