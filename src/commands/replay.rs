//! `fencepost replay`: plays a run again and again, and says how often it shows a violation.

use crate::commands::context::servers;
use crate::commands::replay_and_keep::{KeepArgs, line, replay_and_keep};
use crate::output::{complain, say};
use crate::runtime::run_until_stopped;
use anyhow::{Result, bail};
use clap::Args;
use fencepost_campaign::Played;
use fencepost_engine::{JOBS_MAX, RUNS_MAX, Stop, StopReason, check_count, pick};
use fencepost_history::run::RunFolder;
use fencepost_hunt::{Replays, Schedule, replay as play_again};
use fencepost_report::terminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Plays the seed and the faults of a run again, several times, and says how often a violation comes.
///
/// Exit code: 0 if no play shows a violation, 1 if one does, 2 if nothing could be tested.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The run's folder: results/latest, for instance.
    #[arg(value_name = "RESULT")]
    pub run: PathBuf,
    /// Number of plays.
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    pub times: usize,
    /// Number of plays side by side.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub jobs: usize,
    /// Where the nodes run: docker, local, or auto [default: as the run was made].
    #[arg(long)]
    pub driver: Option<String>,
    /// Folder of the new runs.
    #[arg(long, default_value = "results")]
    pub results: PathBuf,
    #[command(flatten)]
    pub keep: KeepArgs,
}

pub fn replay(args: &ReplayArgs) -> Result<i32> {
    check_count("--times", args.times, RUNS_MAX)?;
    check_count("--jobs", args.jobs, JOBS_MAX)?;
    let schedule = schedule(&args.run, args.driver.as_deref())?;
    show(&heading(&args.run, &schedule));
    if args.keep.keep {
        return replay_and_keep(&args.keep, &schedule, &args.results);
    }
    let stop = Arc::new(Stop::default());
    let player = servers(&args.results, true, &stop);
    let ended = |number: usize, played: &Result<Played>| say!("{number:>4}/{}  {}", args.times, line(played));
    let replays = run_until_stopped(&stop, async {
        let spec = schedule.spec()?;
        fencepost_engine::make_images(&spec.options.driver, [&spec].into_iter(), &stop).await;
        anyhow::Ok(play_again(&schedule, args.times, args.jobs, &player, &stop, ended).await)
    })?;
    finish(&replays?, args.times, stop.reason() == Some(&StopReason::Interrupted))
}

fn finish(replays: &Replays, times: usize, interrupted: bool) -> Result<i32> {
    let rate = replays.rate;
    if rate.plays == 0 {
        match replays.failed.first() {
            Some(first) => bail!("no play came to a verdict: {first}"),
            None => bail!("interrupted before a play was over"),
        }
    }
    let (low, high) = rate.interval();
    say!(
        "\n{rate} plays show a violation (95 % interval of the rate: {:.0} % to {:.0} %)",
        low * 100.0,
        high * 100.0
    );
    for (violation, count) in &replays.violations {
        say!("  {count:>4}  {violation}");
    }
    if replays.undecided > 0 {
        say!("  {:>4}  plays tested nothing, or could not be decided", replays.undecided);
    }
    if !replays.failed.is_empty() {
        complain!("fencepost: {} of {times} plays failed: {}", replays.failed.len(), replays.failed[0]);
    }
    if interrupted {
        complain!("fencepost: interrupted; the rate is that of {} of {times} plays", rate.plays);
    }
    Ok(replays.exit_code())
}

/// The schedule of a run, on this driver if one is named.
pub(super) fn schedule(run: &Path, driver: Option<&str>) -> Result<Schedule> {
    let mut schedule = Schedule::of_run(&RunFolder::open(run)?)?;
    if let Some(driver) = driver {
        pick("driver", driver, &fencepost_cluster::DRIVER_NAMES, |name| name)?;
        driver.clone_into(&mut schedule.options.driver);
    }
    schedule.spec()?;
    Ok(schedule)
}

pub(super) fn show(rows: &[(&'static str, String)]) {
    let rows: Vec<(&str, &str)> = rows.iter().map(|(name, text)| (*name, text.as_str())).collect();
    say!("{}", terminal::rows(&rows).trim_end());
}

pub(super) fn heading(run: &Path, schedule: &Schedule) -> [(&'static str, String); 4] {
    let faults = match &schedule.plan.faults[..] {
        [] => "none".to_owned(),
        faults => {
            let each = faults.iter().map(|fault| format!("{} on {}", fault.fault, fault.on.join(",")));
            format!("{}: {}", faults.len(), each.collect::<Vec<_>>().join("; "))
        }
    };
    let seed = schedule.options.seed.map(|seed| seed.to_string()).unwrap_or_default();
    [
        ("run", run.display().to_string()),
        ("lock", schedule.options.lock.clone()),
        ("seed", seed),
        ("faults", faults),
    ]
}
