//! `fencepost analyze`: judges a run again from its folder.

use crate::output::say;
use crate::unwritten::with_files;
use anyhow::{Context, Result};
use clap::Args;
use fencepost_checker::{RunIndex, ledger_table};
use fencepost_engine::refuse;
use fencepost_history::read_history;
use fencepost_history::run::RunFolder;
use fencepost_report::pipeline::PipelineArgs;
use fencepost_report::{Judged, heading, judge, pipeline, terminal};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// Which run.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// The run's folder: results/latest, for instance.
    pub run: PathBuf,
    /// Print the ledger instead: when each lock was granted, how each grant can have ended, and why
    #[arg(long)]
    pub ledger: bool,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

/// Gives the same verdict as at the end of the run, without engine or servers. Returns the exit code.
pub fn analyze(args: &AnalyzeArgs) -> Result<i32> {
    let folder = RunFolder::open(&args.run)?;
    if goes_on(&folder.path) {
        let run = args.run.display();
        refuse!(
            "the run in {run} goes on: a verdict now would not be its last; wait for its end, or watch it with `fencepost serve`"
        );
    }
    if args.ledger {
        let events = read_history(&folder.history())?;
        let run =
            RunIndex::new(&events).with_context(|| format!("{} is malformed", folder.history().display()))?;
        say!("{}", ledger_table(&run, None));
        return Ok(0);
    }
    say!("{}", terminal::heading_text(&heading(&folder.read_run()?)));
    let Judged { verdict, text, unwritten, .. } = judge(&folder)?;
    say!("{text}");
    let (code, written) = pipeline::report(&args.pipeline, &folder, &verdict);
    Ok(with_files("the verdict", unwritten.map(Err).into_iter().chain([written]), code))
}

/// Whether a process is writing this run now; false where locks do not work.
fn goes_on(folder: &Path) -> bool {
    let folder = File::open(folder);
    folder.is_ok_and(|folder| matches!(folder.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
