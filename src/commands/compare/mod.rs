//! `fencepost compare`: a matrix of locks and nemeses. The runs that are missing are made; the report compares them.

mod args;
mod matrix;
mod part;
mod perform;
mod report;

use crate::exit::FAILED;
use crate::output::{complain, say};
use crate::runtime::{listen_for_signals, runtime};
use crate::store;
use anyhow::{Result, bail};
pub use args::CompareArgs;
use fencepost_engine::{BadUsage, Reason, Stop};
use fencepost_history::prose;
use fencepost_report::comparison::{Comparison, of_runs};
use fencepost_report::parts::Durations;
use fencepost_report::runs::{self, Run};
use fencepost_report::terminal;
use matrix::{JudgedRuns, Matrix, MatrixPlan, MatrixRun, lock};
use part::Part;
use perform::perform;
pub use report::{ComparisonFiles, JSON, SUBJECT, name_files, tell, write};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the runs that are not there, and tells what they say together.
pub fn compare(args: &CompareArgs) -> Result<i32> {
    let baseline = args.files.read_baseline()?;
    if !args.from.is_empty() {
        let comparison = existing(&store::locals(&args.from)?)?;
        let code = tell(&comparison, baseline.as_ref());
        return Ok(write(&args.files, &comparison, None, code));
    }
    let durations = durations(args.durations.as_deref())?;
    let mut matrix = Matrix::new(args)?;
    let seeds = matrix.plan(&durations)?.seeds();
    let results = &args.results;
    let _alone = lock(results, args.shard)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        results.check().await?;
        results.bring(|name| name.rsplit('-').next().is_some_and(|seed| seeds.contains(seed))).await
    })?;
    let folder = matrix.folder(results, args.options.seed.is_some())?;
    let plan = matrix.plan(&durations)?;
    let runs = runs::all(results)?;
    let (todo, done) = split(&plan, &runs);
    let part = Part::begin(&folder, &matrix, &plan, &runs)?;
    drop(runs);
    say!(
        "{}",
        terminal::rows(&[("repeat", &matrix.command()), ("seed", &matrix.seed.to_string())]).trim_end()
    );
    if let Some(shard) = args.shard {
        let all = plan.campaign.possible_runs();
        let sentence =
            format!("{shard}: {} of the comparison's {}", plan.runs.len(), prose::count(all, "run"));
        say!("{}", terminal::rows(&[("part", &sentence)]).trim_end());
    }
    let count = format!("{} to do, {done} done before, {} side by side", todo.len(), args.jobs);
    say!("{}", terminal::rows(&[("runs", &count), ("folder", &folder.display().to_string())]));
    let stop = Arc::new(Stop::default());
    let failures = runtime.block_on(async {
        tokio::spawn(listen_for_signals(stop.clone()));
        perform(todo, args.jobs, results, &part, &stop).await
    });
    let runs = runs::all(results)?;
    if stop.reason() == Some(&Reason::Interrupted) {
        let (left, done) = split(&plan, &runs);
        bail!("{}", interrupted(done, left.len()));
    }
    let (left, _) = split(&plan, &runs);
    let ended = part.end(left.is_empty());
    let comparison = matrix.comparison(&plan, &runs, &failures);
    let code = tell(&comparison, baseline.as_ref());
    let code = write(&args.files, &comparison, Some(&folder), code);
    name_files(&folder);
    let code = match ended {
        Ok(()) => code,
        Err(error) => {
            complain!("fencepost: the comparison above is right, but it cannot be merged: {error:#}");
            if code == 0 { FAILED } else { code }
        }
    };
    let code = match failures.len() {
        0 => code,
        count => {
            let runs = prose::count(count, "run");
            complain!("fencepost: {runs} failed; the same command, with --seed {}, tries again", matrix.seed);
            if code == 0 { FAILED } else { code }
        }
    };
    let code = runtime.block_on(async {
        results.send(&folder).await;
        results.finish(code).await
    });
    runtime.shutdown_background();
    Ok(code)
}

/// The lengths of earlier runs, from the file that the user named, if there is one.
///
/// # Errors
/// It is no such file: one sentence.
pub fn durations(file: Option<&Path>) -> Result<Durations, BadUsage> {
    let read = file.map(Durations::read).transpose();
    Ok(read.map_err(|error| BadUsage(error.to_string()))?.unwrap_or_default())
}

/// How far the comparison came when it was interrupted.
fn interrupted(done: usize, left: usize) -> String {
    let are = if done == 1 { "is" } else { "are" };
    let rest = if left == 1 { "one that is left" } else { "ones that are left" };
    format!(
        "interrupted; {} of {} {are} done; the same command makes the {rest}",
        done,
        prose::count(done + left, "run")
    )
}

/// Runs that are to be made here, and how many are there.
fn split(plan: &MatrixPlan, runs: &[Run]) -> (Vec<MatrixRun>, usize) {
    let runs = JudgedRuns::of(runs);
    let (done, todo): (Vec<&MatrixRun>, Vec<&MatrixRun>) =
        plan.runs.iter().partition(|planned| planned.made(&runs).is_some());
    (todo.into_iter().cloned().collect(), done.len())
}

/// The runs that comparisons in this folder have made and not yet put together: the same command goes on from them.
pub fn runs_of_unfinished(results: &Path, runs: &[Run]) -> HashSet<PathBuf> {
    let unfinished = matrix::kept(results).into_iter().filter(|(path, _)| !path.join(JSON).exists());
    let plans = unfinished.filter_map(|(_, matrix)| {
        // However the runs were dealt: all of them stay.
        Matrix { shard: None, ..matrix }.plan(&Durations::default()).ok()
    });
    let runs = JudgedRuns::of(runs);
    let planned_runs = plans.flat_map(|plan| plan.runs);
    planned_runs.filter_map(|planned| Some(planned.made(&runs)?.path.clone())).collect()
}

/// The runs in these folders: each is a run, or holds some.
fn existing(folders: &[PathBuf]) -> Result<Comparison> {
    let mut found: Vec<Run> = Vec::new();
    for folder in folders {
        let folder = folder
            .canonicalize()
            .map_err(|error| BadUsage(format!("cannot open {}: {error}", folder.display())))?;
        match runs::read(&folder) {
            Some(run) => found.push(run),
            None => found.extend(
                runs::all(&folder)
                    .map_err(|error| BadUsage(format!("cannot read {}: {error}", folder.display())))?,
            ),
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    let order: Vec<&str> = fencepost_nemesis::registry().iter().map(|nemesis| nemesis.name()).collect();
    let comparison = of_runs(&found, &order);
    if comparison.rows.is_empty() {
        let why = comparison.left_out.first().map_or(String::new(), |why| format!(" ({why})"));
        return Err(BadUsage(format!(
            "there is no judged run to compare in {}{why}; runs lie in results/ after `fencepost test`",
            folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
        ))
        .into());
    }
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_an_interruption_is_counted_in_words() {
        let sentence = "interrupted; 1 of 2 runs is done; the same command makes the one that is left";
        assert_eq!(interrupted(1, 1), sentence);
        let sentence = "interrupted; 0 of 3 runs are done; the same command makes the ones that are left";
        assert_eq!(interrupted(0, 3), sentence);
    }
}
