//! `fencepost test`: one run, and its verdict.

mod against;
mod keep_data;
mod live;
mod slow_machine;

use crate::commands::context::repeat;
use crate::config::comes_from_file;
use crate::examples::about;
use crate::exit::{BAD_USAGE, FAILED};
use crate::output::{complain, say};
use crate::runtime::run_until_stopped;
use crate::store::Results;
use crate::unwritten::with_files;
use against::{OwnRun, Reference};
use anyhow::Result;
use clap::Args;
use fencepost_campaign::ResultsStore;
use fencepost_checker::Outcome;
use fencepost_engine::{BadUsage, Faults, RunOptions, RunSpec, Stop, grouped, run_beside_others};
use fencepost_history::find_history;
use fencepost_history::run::RunFolder;
use fencepost_report::pipeline::PipelineArgs;
use fencepost_report::runs::keep_failure;
use fencepost_report::{Judged, heading, judge, pipeline, terminal};
use keep_data::KeepData;
use live::TestLive;
use std::sync::Arc;

/// What a test does.
#[derive(Debug, Args)]
#[command(mut_args(grouped))]
pub struct TestArgs {
    #[command(flatten)]
    pub options: RunOptions,
    /// Folder of all runs, or an object store that they are sent to (s3://BUCKET/PREFIX, gs://…, az://…,
    /// file:///FOLDER).
    #[arg(long, default_value = "results", value_name = "FOLDER|STORE")]
    pub results: Results,
    /// Reference lock, on the same servers: it is played under the same faults afterwards, and the output
    /// says what --lock does worse. `none` compares nothing. The exit code stays that of --lock.
    #[arg(long, value_name = "LOCK")]
    pub against: Option<String>,
    /// Runs of the lock of --against.
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    pub against_runs: usize,
    /// When to keep the data folders of the servers, packed, in the run's folder.
    #[arg(long, value_enum, default_value_t)]
    pub keep_data: KeepData,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

/// Runs a test and gives the exit code of its verdict.
pub fn test(args: &TestArgs) -> Result<i32> {
    let spec = fitted(&args.options)?;
    if let Some(announcement) = spec.announcement()? {
        say!("{announcement}");
        return Ok(BAD_USAGE);
    }
    args.pipeline.check().map_err(BadUsage::new)?;
    let reference = Reference::of(args.against.as_deref(), args.against_runs, &spec)?;
    let command = repeat().test(&spec.options);
    say!("{}", terminal::plan_text(&heading(&spec.options.run_file(command.clone()))).trim_end());
    let stop = Arc::new(Stop::default());
    run_until_stopped(&stop, run_and_judge(args, &spec, reference.as_ref(), &command, &stop))?
}

/// As [`validated`], with what suits a slow machine, unless the lock takes no such TTL.
fn fitted(options: &RunOptions) -> Result<RunSpec, BadUsage> {
    let slow = slow_machine::fit(options).and_then(|(fit, line)| Some((validated(&fit).ok()?, line)));
    let Some((spec, line)) = slow else { return validated(options) };
    complain!("{line}");
    Ok(spec)
}

/// Validates the options, without fault options of `fencepost.toml` that this run does not use.
fn validated(options: &RunOptions) -> Result<RunSpec, BadUsage> {
    let drawn = match (&options.nemesis_file, options.is_swarm()) {
        (Some(_), _) => return validated_with_plan(options),
        (None, true) => fencepost_nemesis::registry().to_vec(),
        (None, false) => options.nemeses()?,
    };
    RunSpec::new(options.clone().shaped_for(&drawn, Faults::Drawn, comes_from_file)?)
}

/// As [`validated`]; which faults there are is known once the plan was read.
fn validated_with_plan(options: &RunOptions) -> Result<RunSpec, BadUsage> {
    let mut bare = options.clone();
    bare.nemesis_options.clock_mechanism = None;
    let planned = RunSpec::new(bare.shaped_for(&[], Faults::Written, comes_from_file)?)?;
    RunSpec::new(options.clone().shaped_for(&planned.nemeses, Faults::Written, comes_from_file)?)
}

async fn run_and_judge(
    args: &TestArgs,
    spec: &RunSpec,
    reference: Option<&Reference>,
    command: &str,
    stop: &Arc<Stop>,
) -> Result<i32> {
    args.results.check().await?;
    let folder = RunFolder::create(&args.results, &spec.options.settings())?;
    let cleanup_errors =
        match run_beside_others(spec, command, &folder, stop, None, Arc::new(TestLive::new(args.keep_data)))
            .await
        {
            Ok(outcome) => outcome.cleanup_errors,
            Err(error) => {
                keep_failure(&folder.path, &format!("{error:#}"));
                let code = after_failure(args, &folder, error)?;
                reference.inspect(|reference| reference.not_compared());
                args.results.send(&folder.path).await;
                return Ok(args.results.finish(code).await);
            }
        };
    let judged = judge(&folder)?;
    let outcome = judged.verdict.outcome;
    say!("{}", judged.text);
    if folder.data().exists() {
        say!("data      what the servers had on their disks: {}", folder.data().display());
    }
    let (code, written) = pipeline::report(&args.pipeline, &folder, &judged.verdict);
    let code = with_files("the verdict", judged.unwritten.map(Err).into_iter().chain([written]), code);
    for error in &cleanup_errors {
        complain!("fencepost: {error}");
    }
    let code = match reference {
        Some(reference) => {
            let (lock, is_whole) = (&spec.options.lock, !spec.options.fail_fast);
            let own = OwnRun { lock, folder: &folder, verdict: &judged.verdict, is_whole };
            let compared = reference.compare(&own, &args.results, stop).await;
            with_files("the comparison", [compared], code)
        }
        None => code,
    };
    args.results.send(&folder.path).await;
    // Whatever else went wrong, a violation stays one; but what was not healed or removed is no success.
    let is_clean = outcome == Outcome::Violation || cleanup_errors.is_empty();
    let code = args.results.finish(if is_clean { code } else { FAILED }).await;
    let is_the_verdicts = code != 0 && args.pipeline.expect.is_none();
    if let Some(meaning) = about("test").filter(|_| is_the_verdicts).and_then(|test| test.exit(code)) {
        say!("{meaning}");
    }
    Ok(code)
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
            let (code, written) = pipeline::report(&args.pipeline, folder, &verdict);
            // A run that ended early is no success, whosever the violation is.
            Ok(with_files("the verdict", [written], if code == 0 { FAILED } else { code }))
        }
        _ => Err(error),
    }
}
