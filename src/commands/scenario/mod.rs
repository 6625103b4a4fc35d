//! `fencepost scenario`: plays directed runs on real servers, and compares them with the outcome that their authors expect.
//! The scenarios themselves are files, which the engine reads.

mod page;
mod play;
mod repetitions;
mod table;

use crate::output::say;
use anyhow::Result;
use clap::Args;
use fencepost_engine::scenario::{Scenario, find, read_file, registry};
use fencepost_engine::{BadUsage, unknown};
use fencepost_engine::{Reason, Stop};
use fencepost_history::Seed;
use fencepost_history::mistake::MistakeInFile;
use fencepost_history::run::write_whole;
use fencepost_report::pipeline::junit;
use futures_util::StreamExt;
use play::{Ending, PlayOptions, Report, check, make_images, play};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Plays scenarios: directed runs with an expected outcome.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// `list`, or the scenarios to play: names of built-in ones, or files (see docs/scenarios.md).
    #[arg(value_name = "NAME|FILE")]
    pub names: Vec<String>,
    /// Play every built-in scenario.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Play them against another lock, and report whether it holds (see `fencepost list locks`).
    #[arg(long, value_name = "NAME")]
    pub lock: Option<String>,
    /// Where the nodes run: docker, local, or auto (docker if an engine answers, else local).
    #[arg(long, default_value = "auto")]
    pub driver: String,
    /// Repeats the random choices of an earlier call [default: a fresh one].
    #[arg(long)]
    pub seed: Option<Seed>,
    /// Scenarios that run side by side.
    #[arg(long, default_value_t = 4)]
    pub jobs: usize,
    /// Play each scenario this many times, and count the outcomes.
    #[arg(long, default_value_t = 1)]
    pub times: usize,
    /// Folder of their runs.
    #[arg(long, default_value = "results")]
    pub results: PathBuf,
    /// Print the outcomes as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the debate as a page in Markdown, from the outcomes.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the outcomes as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Plays scenarios. Exit code: 0 if all agree with their sources (or the lock holds), 1 if one does not, 2 if one did not
/// happen.
pub fn scenario(args: &ScenarioArgs) -> Result<i32> {
    if args.names.len() == 1 && args.names[0] == "list" {
        say!("{}", table::list(registry()).trim_end());
        return Ok(0);
    }
    let chosen = chosen(args)?;
    fencepost_engine::pick("driver", &args.driver, &fencepost_cluster::DRIVER_NAMES, |name| name)?;
    if args.jobs == 0 || args.times == 0 {
        return Err(BadUsage("--jobs and --times must be at least 1".to_owned()).into());
    }
    let seed = args.seed.unwrap_or_else(Seed::fresh);
    let stop = Arc::new(Stop::default());
    for scenario in &chosen {
        check(scenario, &options(args, seed, &stop, false)).map_err(|error| refusal(args, &error))?;
    }
    let runtime = crate::runtime::runtime()?;
    let (reports, stopped) = runtime.block_on(play_all(args, &chosen, seed, &stop));
    runtime.shutdown_background();
    show(args, &reports, chosen.len() > 1 || args.times > 1)?;
    if stopped {
        anyhow::bail!(
            "interrupted; {} of {} scenarios were played",
            reports.len(),
            chosen.len() * args.times
        );
    }
    Ok(exit_code(&reports))
}

/// Why a scenario cannot be played as it is, or not against this lock.
fn refusal(args: &ScenarioArgs, error: &MistakeInFile) -> BadUsage {
    match &args.lock {
        Some(lock) => BadUsage(format!("this scenario cannot be played against {lock}: {error}")),
        None => BadUsage(error.to_string()),
    }
}

fn chosen(args: &ScenarioArgs) -> Result<Vec<Arc<Scenario>>, BadUsage> {
    if args.all {
        return Ok(registry().iter().cloned().map(Arc::new).collect());
    }
    if args.names.is_empty() {
        let sentence = "name a scenario to play, or use --all; `fencepost scenario list` names them";
        return Err(BadUsage(sentence.to_owned()));
    }
    args.names.iter().map(|name| one(name).map(Arc::new)).collect()
}

/// A built-in scenario, or one from a file.
fn one(name: &str) -> Result<Scenario, BadUsage> {
    if let Some(scenario) = find(name) {
        return Ok(scenario);
    }
    if name.contains('/') || name.ends_with(".toml") {
        return read_file(Path::new(name));
    }
    let names: Vec<&str> = registry().iter().map(|scenario| scenario.name.as_str()).collect();
    Err(BadUsage(unknown("scenario", name, &names)))
}

/// How to play; `shown` prints the narration as it happens.
fn options(args: &ScenarioArgs, seed: Seed, stop: &Arc<Stop>, shown: bool) -> PlayOptions {
    PlayOptions {
        lock: args.lock.clone(),
        driver: args.driver.clone(),
        seed,
        seed_given: args.seed.is_some(),
        results: args.results.clone(),
        stop: stop.clone(),
        on_event: match shown {
            true => Arc::new(|line: &str| say!("{line}")),
            false => Arc::new(|_: &str| ()),
        },
    }
}

/// Plays them, several side by side; gives the reports in the order of the command line, and whether Ctrl-C ended it
/// early.
async fn play_all(
    args: &ScenarioArgs,
    chosen: &[Arc<Scenario>],
    seed: Seed,
    stop: &Arc<Stop>,
) -> (Vec<Report>, bool) {
    tokio::spawn(crate::runtime::listen_for_signals(stop.clone()));
    let alone = chosen.len() * args.times == 1;
    let jobs = if alone { 1 } else { args.jobs };
    if !alone {
        make_images(chosen, &options(args, seed, stop, false)).await;
    }
    let turns = chosen.iter().flat_map(|scenario| (0..args.times).map(move |turn| (scenario, turn)));
    let places = Arc::new(Semaphore::new(jobs));
    let plays = turns.map(|(scenario, turn)| {
        let seed = Seed(seed.0.wrapping_add(turn as u64) & ((1 << 53) - 1));
        let options = options(args, seed, stop, alone && !args.json);
        play_in_turn(args, scenario.clone(), options, places.clone(), jobs, alone)
    });
    let reports: Vec<Option<Report>> = futures_util::stream::iter(plays).buffered(jobs).collect().await;
    let stopped = stop.reason() == Some(&Reason::Interrupted);
    (reports.into_iter().flatten().collect(), stopped)
}

/// Plays one when its turn comes; one that must not be disturbed takes all places.
async fn play_in_turn(
    args: &ScenarioArgs,
    scenario: Arc<Scenario>,
    options: PlayOptions,
    places: Arc<Semaphore>,
    jobs: usize,
    alone: bool,
) -> Option<Report> {
    let needed = if scenario.runs.iter().any(|run| run.undisturbed) { jobs } else { 1 };
    let needed = u32::try_from(needed).unwrap_or(u32::MAX);
    let _places = places.acquire_many(needed).await.expect("never closed");
    if options.stop.reason() == Some(&Reason::Interrupted) {
        return None;
    }
    if alone && !args.json {
        say!("{}", table::opening(&scenario, &options));
    }
    let report = play(&scenario, &options).await;
    if !alone && !args.json {
        say!("{}", table::line(&report));
    }
    Some(report)
}

fn show(args: &ScenarioArgs, reports: &[Report], many: bool) -> Result<()> {
    if args.json {
        say!("{}", serde_json::to_string_pretty(reports)?);
    } else if many {
        say!("\n{}", table::table(reports).trim_end());
    } else {
        reports.iter().for_each(|report| say!("\n{}", table::closing(report).trim_end()));
    }
    if let Some(path) = &args.markdown {
        page::pictures(reports, path)?;
        write_whole(path, page::markdown(reports).as_bytes())?;
    }
    if let Some(path) = &args.junit {
        write_whole(path, junit::xml("fencepost scenario", &[suite(reports)])?.as_bytes())?;
    }
    Ok(())
}

/// A case for each time that a scenario was played.
fn suite(reports: &[Report]) -> junit::Suite {
    let case = |report: &Report| {
        let (expected, ending) = (&report.expected, report.ending.text());
        let details = report.runs.iter().map(table::observed).collect::<Vec<_>>().join("\n");
        let message = match &report.failed {
            Some(failed) => format!("{ending}: {failed}"),
            None => format!("{ending}: {expected}"),
        };
        let end = match report.ending {
            Ending::Agrees | Ending::Holds => junit::End::Passed,
            Ending::Disagrees | Ending::DiffersFromTheSource | Ending::Broken => {
                junit::End::Failed { message, details }
            }
            Ending::DidNotHappen => junit::End::Undecided { message, kind: "did-not-happen" },
        };
        junit::Case { name: report.name.clone(), class: "fencepost.scenario".to_owned(), end }
    };
    let seed = reports.first().map(|report| ("seed".to_owned(), report.seed.to_string()));
    junit::Suite {
        name: "the debate".to_owned(),
        properties: seed.into_iter().collect(),
        cases: reports.iter().map(case).collect(),
    }
}

fn exit_code(reports: &[Report]) -> i32 {
    match repetitions::worst(reports) {
        Ending::Disagrees | Ending::DiffersFromTheSource | Ending::Broken => 1,
        Ending::DidNotHappen => 2,
        Ending::Agrees | Ending::Holds => 0,
    }
}
