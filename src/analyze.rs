//! `fencepost analyze`: judges a run again from its folder.

use crate::cli::AnalyzeArgs;
use crate::say;
use anyhow::Result;
use fencepost_history::run::RunFolder;
use fencepost_report::{Judged, heading, judge, pipeline, terminal};

/// Gives the same verdict as at the end of the run, without engine or servers. Returns the exit code.
pub fn analyze(args: &AnalyzeArgs) -> Result<i32> {
    let folder = RunFolder::open(&args.run)?;
    say!("{}", terminal::heading_text(&heading(&folder.read_run()?)));
    let Judged { verdict, text, .. } = judge(&folder)?;
    say!("{text}");
    pipeline::tell(&args.pipeline, &folder, &verdict)
}
