//! The command `fencepost scenario`.

use super::perform::{Ending, Manner, Report, perform, prepare};
use super::{Scenario, find, plays, registry, table};
use crate::output::say;
use anyhow::Result;
use clap::Args;
use fencepost_engine::{BadUsage, unknown};
use fencepost_engine::{Reason, Stop};
use fencepost_history::Seed;
use fencepost_history::run::write_whole;
use fencepost_report::pipeline::junit;
use futures_util::StreamExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Plays stories of the debate.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// `list`, or the names of scenarios to play.
    pub names: Vec<String>,
    /// Play every scenario.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
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
    /// Print what came of them as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the debate as a page in Markdown, from what came of them.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write what came of them as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Plays what was asked for. Exit code: 0 if all agree with their sources, 1 if one does not, 2 if one did not happen.
pub fn scenario(args: &ScenarioArgs) -> Result<i32> {
    if args.names.len() == 1 && args.names[0] == "list" {
        say!("{}", table::list(registry()).trim_end());
        return Ok(0);
    }
    let chosen = chosen(args)?;
    fencepost_engine::pick("driver", &args.driver, &["auto", "docker", "local"], |name| name)?;
    if args.jobs == 0 || args.times == 0 {
        return Err(BadUsage("--jobs and --times must be at least 1".to_owned()).into());
    }
    let seed = args.seed.unwrap_or_else(Seed::fresh);
    let runtime = crate::runtime::runtime()?;
    let (reports, stopped) = runtime.block_on(play_all(args, &chosen, seed));
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

fn chosen(args: &ScenarioArgs) -> Result<Vec<&'static Scenario>, BadUsage> {
    if args.all {
        return Ok(registry().to_vec());
    }
    if args.names.is_empty() {
        let sentence = "name a scenario to play, or use --all; `fencepost scenario list` names them";
        return Err(BadUsage(sentence.to_owned()));
    }
    let names: Vec<&str> = registry().iter().map(|scenario| scenario.name).collect();
    let found =
        args.names.iter().map(|name| find(name).ok_or_else(|| BadUsage(unknown("scenario", name, &names))));
    found.collect()
}

/// Plays them, several side by side; gives the reports in the order in which they were asked for, and whether Ctrl-C
/// ended it early.
async fn play_all(args: &ScenarioArgs, chosen: &[&'static Scenario], seed: Seed) -> (Vec<Report>, bool) {
    let stop = Arc::new(Stop::default());
    tokio::spawn(crate::runtime::listen_for_signals(stop.clone()));
    let alone = chosen.len() * args.times == 1;
    let quiet = args.json;
    let jobs = if alone { 1 } else { args.jobs };
    if !alone {
        prepare(chosen, &args.driver, seed, &stop).await;
    }
    let turns = chosen.iter().flat_map(|scenario| (0..args.times).map(move |turn| (*scenario, turn)));
    let places = Arc::new(Semaphore::new(jobs));
    let plays = turns.map(|(scenario, turn)| {
        let places = places.clone();
        let needed = if (scenario.acts)().iter().any(|act| act.undisturbed) { jobs } else { 1 };
        let aloud: Arc<dyn Fn(&str) + Send + Sync> = match alone && !quiet {
            true => Arc::new(|line: &str| say!("{line}")),
            false => Arc::new(|_: &str| ()),
        };
        let manner = Manner {
            driver: args.driver.clone(),
            seed: Seed(seed.0.wrapping_add(turn as u64) & ((1 << 53) - 1)),
            results: args.results.clone(),
            stop: stop.clone(),
            aloud,
        };
        async move {
            let needed = u32::try_from(needed).unwrap_or(u32::MAX);
            let _places = places.acquire_many(needed).await.expect("never closed");
            if manner.stop.reason() == Some(&Reason::Interrupted) {
                return None;
            }
            if alone && !quiet {
                say!("{}", table::opening(scenario, &manner));
            }
            let report = perform(scenario, &manner).await;
            if !alone && !quiet {
                say!("{}", table::line(&report));
            }
            Some(report)
        }
    });
    let reports: Vec<Option<Report>> = futures_util::stream::iter(plays).buffered(jobs).collect().await;
    let stopped = stop.reason() == Some(&Reason::Interrupted);
    (reports.into_iter().flatten().collect(), stopped)
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
        super::page::pictures(reports, path)?;
        write_whole(path, super::page::markdown(reports).as_bytes())?;
    }
    if let Some(path) = &args.junit {
        write_whole(path, junit::xml("fencepost scenario", &[suite(reports)])?.as_bytes())?;
    }
    Ok(())
}

/// A case for each time that a story was played.
fn suite(reports: &[Report]) -> junit::Suite {
    let case = |report: &Report| {
        let (expected, ending) = (report.expected, report.ending.text());
        let details = report.acts.iter().map(table::observed).collect::<Vec<_>>().join("\n");
        let message = match &report.failed {
            Some(failed) => format!("{ending}: {failed}"),
            None => format!("{ending}: {expected}"),
        };
        let end = match report.ending {
            Ending::Agrees => junit::End::Passed,
            Ending::Disagrees | Ending::DiffersFromTheSource => junit::End::Failed { message, details },
            Ending::DidNotHappen => junit::End::Undecided { message, kind: "did-not-happen" },
        };
        junit::Case { name: report.name.to_owned(), class: "fencepost.scenario".to_owned(), end }
    };
    let seed = reports.first().map(|report| ("seed".to_owned(), report.seed.to_string()));
    junit::Suite {
        name: "the debate".to_owned(),
        properties: seed.into_iter().collect(),
        cases: reports.iter().map(case).collect(),
    }
}

fn exit_code(reports: &[Report]) -> i32 {
    match plays::worst(reports) {
        Ending::Disagrees | Ending::DiffersFromTheSource => 1,
        Ending::DidNotHappen => 2,
        Ending::Agrees => 0,
    }
}
