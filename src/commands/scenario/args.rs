//! The options of `fencepost scenario`.

use crate::store::Results;
use clap::Args;
use fencepost_history::{Seed, Shard};
use std::path::PathBuf;

/// Plays scenarios: directed runs with an expected outcome.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// `list`, or the scenarios to play: names of built-in ones, or files (see docs/scenarios.md).
    #[arg(value_name = "NAME|FILE")]
    pub names: Vec<String>,
    /// Play every built-in scenario.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Play them against another lock, and report whether it holds (see `fencepost list locks`).
    #[arg(long, value_name = "NAME")]
    pub lock: Option<String>,
    /// Where the nodes run: docker, local, or auto (docker if an engine answers, else local).
    #[arg(long, default_value = "auto")]
    pub driver: String,
    /// Seed of all random choices, such as that of an earlier call [default: a fresh one].
    #[arg(long)]
    pub seed: Option<Seed>,
    /// Scenarios that run side by side.
    #[arg(long, default_value_t = 4)]
    pub jobs: usize,
    /// Play each scenario this many times, and count the outcomes.
    #[arg(long, default_value_t = 1)]
    pub times: usize,
    /// Play only one part of the scenarios, such as 1/4; `fencepost merge` merges the parts. Needs --seed.
    #[arg(long, value_name = "K/N", requires = "seed")]
    pub shard: Option<Shard>,
    /// Lengths of earlier runs: the durations.json of a part or merge. All parts need the same file.
    #[arg(long, value_name = "FILE", requires = "shard")]
    pub durations: Option<PathBuf>,
    /// Folder of their runs, or an object store that they are sent to (s3://BUCKET/PREFIX, gs://…, az://…,
    /// file:///FOLDER).
    #[arg(long, default_value = "results", value_name = "FOLDER|STORE")]
    pub results: Results,
    /// Print the outcomes as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the debate as a page in Markdown, from the outcomes.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the outcomes as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}
