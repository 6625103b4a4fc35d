//! `fencepost analyze`: judges a run again from its folder.

use crate::exit::FAILED;
use crate::output::{complain, say};
use anyhow::Result;
use clap::Args;
use fencepost_checker::Outcome;
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
    let Judged { verdict, text, unwritten, .. } = judge(&folder)?;
    say!("{text}");
    let code = pipeline::tell(&args.pipeline, &folder, &verdict)?;
    Ok(with_files(code, verdict.outcome, unwritten))
}

/// The exit code of a run whose report may not have been written, which is said on standard error: a violation stays a
/// violation; of any other verdict nothing is kept, which is no success.
pub(crate) fn with_files(code: i32, outcome: Outcome, unwritten: Option<anyhow::Error>) -> i32 {
    let Some(error) = unwritten else { return code };
    complain!("fencepost: the verdict above is right, but its report is not written: {error:#}");
    if outcome == Outcome::Violation { code } else { FAILED }
}
