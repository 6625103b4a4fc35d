//! `fencepost analyze`: judges a run again from its folder.

use crate::output::say;
use anyhow::Result;
use clap::Args;
use fencepost_history::run::RunFolder;
use fencepost_report::pipeline::PipelineArgs;
use fencepost_report::{Judged, heading, judge, pipeline, terminal};
use std::path::PathBuf;

/// Which run.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// The run's folder: results/latest, for instance.
    pub run: PathBuf,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

/// Gives the same verdict as at the end of the run, without engine or servers. Returns the exit code.
pub fn analyze(args: &AnalyzeArgs) -> Result<i32> {
    let folder = RunFolder::open(&args.run)?;
    say!("{}", terminal::heading_text(&heading(&folder.read_run()?)));
    let Judged { verdict, text, .. } = judge(&folder)?;
    say!("{text}");
    pipeline::tell(&args.pipeline, &folder, &verdict)
}
