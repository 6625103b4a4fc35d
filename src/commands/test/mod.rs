//! `fencepost test`: one run, and its verdict.

mod live;

use crate::commands::analyze::with_files;
use crate::commands::repeat;
use crate::exit::FAILED;
use crate::output::{complain, say};
use crate::runtime::{listen_for_signals, runtime};
use anyhow::Result;
use clap::Args;
use fencepost_checker::Outcome;
use fencepost_engine::{RunOptions, RunSpec, Stop};
use fencepost_history::find_history;
use fencepost_history::run::RunFolder;
use fencepost_report::pipeline::PipelineArgs;
use fencepost_report::{Judged, heading, judge, pipeline, terminal};
use live::Live;
use std::path::PathBuf;
use std::sync::Arc;

/// What a test does.
#[derive(Debug, Args)]
pub struct TestArgs {
    #[command(flatten)]
    pub options: RunOptions,
    /// Folder of all runs.
    #[arg(long, default_value = "results")]
    pub results: PathBuf,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

/// Runs a test and gives the exit code of its verdict.
pub fn test(args: &TestArgs) -> Result<i32> {
    let spec = RunSpec::new(args.options.clone())?;
    let command = repeat::command(&spec.options);
    say!("{}", terminal::plan_text(&heading(&spec.options.run_file(command.clone()))).trim_end());
    let stop = Arc::new(Stop::default());
    let runtime = runtime()?;
    let code = runtime.block_on(run_and_judge(args, &spec, &command, &stop));
    // A client that hangs in a blocking call must not keep a finished run from ending.
    runtime.shutdown_background();
    code
}

async fn run_and_judge(args: &TestArgs, spec: &RunSpec, command: &str, stop: &Arc<Stop>) -> Result<i32> {
    tokio::spawn(listen_for_signals(stop.clone()));
    let folder = RunFolder::create(&args.results, &spec.options.settings())?;
    let cleanup_errors =
        match fencepost_engine::run(spec, command, &folder, stop, None, Arc::new(Live::new())).await {
            Ok(outcome) => outcome.cleanup_errors,
            Err(error) => return after_failure(args, &folder, error),
        };
    let judged = judge(&folder)?;
    let outcome = judged.verdict.outcome;
    say!("{}", judged.text);
    let code = pipeline::tell(&args.pipeline, &folder, &judged.verdict)?;
    for error in &cleanup_errors {
        complain!("fencepost: {error}");
    }
    // Whatever else went wrong, a violation stays one; but what was not healed or removed is no success.
    if outcome != Outcome::Violation && !cleanup_errors.is_empty() {
        return Ok(FAILED);
    }
    Ok(with_files(code, outcome, judged.unwritten))
}

/// A run that failed may have recorded a violation before it did: a violation outranks everything.
fn after_failure(args: &TestArgs, folder: &RunFolder, error: anyhow::Error) -> Result<i32> {
    if find_history(&folder.history()).is_none() {
        return Err(error);
    }
    match judge(folder) {
        Ok(Judged { verdict, text, .. }) if verdict.outcome == Outcome::Violation => {
            say!("{text}");
            complain!("fencepost: the run ended early: {error:#}");
            pipeline::tell(&args.pipeline, folder, &verdict)
        }
        _ => Err(error),
    }
}
