//! `fencepost compare`: a matrix of locks and nemeses. Missing runs are made; the report compares them.

mod args;
mod report;

use crate::commands::context::context;
use crate::exit::FAILED;
use crate::output::{Terminal, complain, say};
use crate::runtime::{listen_for_signals, runtime};
use crate::store;
use anyhow::{Result, bail};
pub use args::CompareArgs;
use fencepost_campaign::compare::{ComparePlay, CompareStart};
use fencepost_campaign::{ProgressLine, ResultsStore, Sitting};
use fencepost_engine::{BadUsage, Stop, StopReason, refuse};
use fencepost_history::prose;
use fencepost_report::comparison::{Comparison, of_runs};
use fencepost_report::runs::{self, Run};
use fencepost_report::terminal;
pub use report::{ComparisonFiles, SUBJECT, name_files, tell, write};
use std::path::PathBuf;
use std::sync::Arc;

/// Makes the runs that are not there, and tells what they say together.
pub fn compare(args: &CompareArgs) -> Result<i32> {
    let baseline = args.files.read_baseline()?;
    if !args.from.is_empty() {
        let comparison = existing(&store::locals(&args.from)?)?;
        let code = tell(&comparison, baseline.as_ref(), &args.files);
        return Ok(write(&args.files, &comparison, None, code));
    }
    let results = &args.results;
    let start = CompareStart::new(args.matrix()?, args.durations.as_deref(), results)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        results.check().await?;
        results.bring(|name| start.can_have_made(name)).await
    })?;
    let stop = Arc::new(Stop::default());
    let mut sitting = start.begin(args.options.seed.is_some(), context(results, &stop))?;
    announce(&sitting, args);
    runtime.block_on(async {
        tokio::spawn(listen_for_signals(stop.clone()));
        sitting.make_runs(args.jobs, &ProgressLine::new(Arc::new(Terminal))).await;
    });
    if stop.reason() == Some(&StopReason::Interrupted) {
        bail!("{}", interrupted(sitting.done(), sitting.left().count()));
    }
    let (seed, folder) = (sitting.campaign.seed, &*sitting.campaign.folder.clone());
    let (comparison, ended) = (sitting.comparison()?, sitting.end());
    let code = tell(&comparison, baseline.as_ref(), &args.files);
    let code = write(&args.files, &comparison, Some(folder), code);
    name_files(folder);
    let code = match ended {
        Ok(()) => code,
        Err(error) => {
            complain!("fencepost: the comparison above is right, but it cannot be merged: {error:#}");
            if code == 0 { FAILED } else { code }
        }
    };
    let code = match sitting.failed() {
        0 => code,
        count => {
            let runs = prose::count(count, "run");
            complain!("fencepost: {runs} failed; the same command, with --seed {seed}, tries again");
            if code == 0 { FAILED } else { code }
        }
    };
    let code = runtime.block_on(async {
        results.send(folder).await;
        results.finish(code).await
    });
    runtime.shutdown_background();
    Ok(code)
}

fn announce(sitting: &Sitting<ComparePlay>, args: &CompareArgs) {
    let ComparePlay { layout, command, seed, folder, .. } = &sitting.campaign;
    let show = |rows: &[(&str, &str)]| say!("{}", terminal::rows(rows).trim_end());
    show(&[("repeat", command), ("seed", &seed.to_string())]);
    if let Some(shard) = args.shard {
        let all = prose::count(layout.possible_runs(), "run");
        show(&[("part", &format!("{shard}: {} of the comparison's {all}", sitting.runs.len()))]);
    }
    let (left, done) = (sitting.left().count(), sitting.done());
    let count = format!("{left} to do, {done} done before, {} side by side", args.jobs);
    say!("{}", terminal::rows(&[("runs", &count), ("folder", &folder.display().to_string())]));
}

fn interrupted(done: usize, left: usize) -> String {
    let are = if done == 1 { "is" } else { "are" };
    let rest = if left == 1 { "one that is left" } else { "ones that are left" };
    format!(
        "interrupted; {} of {} {are} done; the same command makes the {rest}",
        done,
        prose::count(done + left, "run")
    )
}

fn existing(folders: &[PathBuf]) -> Result<Comparison> {
    let mut found: Vec<Run> = Vec::new();
    for folder in folders {
        let folder = folder.canonicalize().map_err(BadUsage::cannot("open", folder))?;
        match runs::read(&folder) {
            Some(run) => found.push(run),
            None => found.extend(runs::all(&folder).map_err(BadUsage::cannot("read", &folder))?),
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    let order: Vec<&str> = fencepost_nemesis::registry().iter().map(|nemesis| nemesis.name()).collect();
    let comparison = of_runs(&found, &order);
    if comparison.rows.is_empty() {
        let why = comparison.left_out.first().map_or(String::new(), |why| format!(" ({why})"));
        refuse!(
            "there is no judged run to compare in {}{why}; runs lie in results/ after `fencepost test`",
            folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
        );
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
