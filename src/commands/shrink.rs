//! `fencepost shrink`: makes a run with a violation smaller, and keeps it as a finding.

use super::replay::{heading, schedule, show};
use crate::commands::context::{program, servers};
use crate::output::say;
use crate::runtime::run_until_stopped;
use anyhow::{Result, bail};
use clap::Args;
use fencepost_checker::{Violation, check_run};
use fencepost_engine::{BadUsage, JOBS_MAX, Stop, check_budget, check_count, refuse, unknown};
use fencepost_history::run::RunFolder;
use fencepost_history::{TimeSpan, read_history, shell_path};
use fencepost_hunt::shrink::{ShrinkBudget, ShrinkOutcome, Shrunk, Step, shrink as make_smaller, size_of};
use fencepost_hunt::{KeptFinding, Schedule, keep};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Where the time was over too soon, so many times as much is proposed.
const LONGER: u32 = 4;

/// Makes a run with a violation smaller, for as long as the violation still comes in eight of ten plays:
/// fewer faults, clients, processes, keys and servers, shorter times, smaller parameters. Writes what is left
/// as a scenario with its report. Ctrl-C ends it with the smallest run by then.
///
/// Exit code: 1 if the violation was found again, 2 if it did not come again.
#[derive(Debug, Args)]
pub struct ShrinkArgs {
    /// The run's folder: results/latest, for instance.
    #[arg(value_name = "RESULT")]
    pub run: PathBuf,
    /// The violation to keep, by its class, such as `overstayed` [default: the first that the report shows].
    #[arg(long)]
    pub class: Option<String>,
    /// Number of plays side by side.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub jobs: usize,
    /// Time to spend.
    #[arg(long = "for", value_name = "TIME", default_value = "15m")]
    pub budget: TimeSpan,
    /// Where the nodes run: docker, local, or auto [default: as the run was made].
    #[arg(long)]
    pub driver: Option<String>,
    /// Folder of findings.
    #[arg(long, default_value = "results/findings", value_name = "FOLDER")]
    pub findings: PathBuf,
}

/// Shrinks a run. Gives the exit code.
pub fn shrink(args: &ShrinkArgs) -> Result<i32> {
    check_count("--jobs", args.jobs, JOBS_MAX)?;
    check_budget("--for", args.budget)?;
    let schedule = schedule(&args.run, args.driver.as_deref())?;
    let (violation, others) = chosen(args)?;
    if schedule.script.is_some() {
        refuse!(
            "the run {} follows the scripts of a scenario, which its author made as small as they are; shrink a run \
             whose clients follow a workload",
            args.run.display()
        );
    }
    show(&heading(&args.run, &schedule));
    show(&[("violation", violation.to_string()), ("size", size_of(&schedule).to_string())]);
    if !others.is_empty() {
        let others: Vec<String> = others.iter().map(Violation::to_string).collect();
        show(&[("besides", format!("{} (--class shrinks another one)", others.join(", ")))]);
    }
    let work = args.findings.join(format!(".shrinking-{}", std::process::id()));
    let outcome = play(args, &schedule, &violation, &work);
    let kept = outcome.and_then(|outcome| match outcome {
        ShrinkOutcome::Smaller(shrunk) => {
            let kept = keep(&shrunk, &violation, &args.findings, program())?;
            Ok(Ok((shrunk, kept)))
        }
        ShrinkOutcome::Rare => Ok(Err(rare(&violation, &args.run))),
        ShrinkOutcome::OutOfTime(plays) => Ok(Err(out_of_time(&violation, plays, args))),
    });
    // Runs on the way prove nothing that the smallest does not. The folder is missing where none began.
    let _ = std::fs::remove_dir_all(&work);
    match kept? {
        Ok((shrunk, kept)) => {
            finish(&shrunk, &kept);
            Ok(1)
        }
        Err(sentence) => {
            say!("\n{sentence}");
            Ok(2)
        }
    }
}

fn rare(violation: &Violation, run: &Path) -> String {
    format!(
        "In ten plays of the run, {violation} did not come again: there is nothing to make smaller.\n\
         `{} replay {} --times 50` says how rare it is.",
        program(),
        shell_path(run)
    )
}

fn out_of_time(violation: &Violation, plays: usize, args: &ShrinkArgs) -> String {
    let played = match plays {
        0 => "before the run itself was played".to_owned(),
        1 => format!("after 1 play of the run itself, which does not show {violation}"),
        many => format!("after {many} plays of the run itself, none of which shows {violation}"),
    };
    format!(
        "The time (--for {}) was over {played}: how often it comes is not known, and nothing was made smaller.\n\
         `{} shrink {} --for {}` takes longer.",
        args.budget,
        program(),
        shell_path(&args.run),
        TimeSpan(args.budget.0 * LONGER)
    )
}

fn chosen(args: &ShrinkArgs) -> Result<(Violation, Vec<Violation>)> {
    let folder = RunFolder::open(&args.run)?;
    fencepost_report::prepare_threads();
    let mut all = Violation::all(&check_run(&read_history(&folder.history())?));
    if all.is_empty() {
        refuse!("the run {} shows no violation, so there is nothing to shrink", args.run.display());
    }
    let place = match &args.class {
        None => 0,
        Some(class) => {
            let classes: Vec<&str> = all.iter().map(|violation| violation.class.as_str()).collect();
            let place = classes.iter().position(|known| known == class);
            place.ok_or_else(|| BadUsage::new(unknown("class of the run's violations", class, &classes)))?
        }
    };
    let chosen = all.remove(place);
    Ok((chosen, all))
}

fn play(args: &ShrinkArgs, schedule: &Schedule, violation: &Violation, work: &Path) -> Result<ShrinkOutcome> {
    let stop = Arc::new(Stop::default());
    let begun = Instant::now();
    let player = servers(work, false, &stop);
    let budget =
        ShrinkBudget { jobs: args.jobs, until: Some(begun + args.budget.0), stop: &stop, hurries: &|| false };
    let mut tell = |step: &Step| {
        let seconds = begun.elapsed().as_secs();
        say!("{:>3}:{:02}  {step}", seconds / 60, seconds % 60);
    };
    let shrunk = run_until_stopped(&stop, async {
        let spec = schedule.spec()?;
        fencepost_engine::make_images(&spec.options.driver, [&spec].into_iter(), &stop).await;
        make_smaller(schedule, violation, &player, budget, &mut tell).await
    });
    match shrunk? {
        Err(error) if stop.reason().is_some() => bail!("{error:#}"),
        shrunk => shrunk,
    }
}

fn finish(shrunk: &Shrunk, kept: &KeptFinding) {
    let file = &kept.file;
    let complete = match shrunk.complete {
        true => "nothing smaller shows it as often",
        false => "ended before everything was tried; a longer --for may make it smaller",
    };
    say!("");
    show(&[
        ("finding", file.signature.to_string()),
        ("happened", file.sentence.clone()),
        ("before", file.before.to_string()),
        ("after", format!("{} ({complete})", file.after)),
        ("rate", format!("{} plays show it", shrunk.rate)),
        ("plays", shrunk.plays.to_string()),
        ("folder", kept.folder.display().to_string()),
        ("report", kept.folder.join("run/report.html").display().to_string()),
        ("repeat", file.command.clone()),
    ]);
}
