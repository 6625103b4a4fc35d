//! `fencepost scenario`: plays directed runs on real servers, and compares them with the outcome that their authors expect.
//! The scenarios themselves are files, which the engine reads.

mod args;
mod page;
mod part;
mod play;
mod repetitions;
mod table;

use crate::commands::compare;
use crate::output::{complain, say};
use crate::unwritten::with_files;
use anyhow::Result;
pub use args::ScenarioArgs;
use fencepost_engine::scenario::{Scenario, find, read_file, registry};
use fencepost_engine::{BadUsage, JOBS_MAX, RUNS_MAX, Reason, Stop, check_count, unknown};
use fencepost_history::Seed;
use fencepost_history::mistake::MistakeInFile;
use fencepost_history::prose::{count, second_of_a_name};
use fencepost_history::run::{write_inside, write_whole};
use fencepost_report::pipeline::junit;
use fencepost_report::terminal;
use futures_util::StreamExt;
use part::ScenarioPart;
pub use part::{ScenarioCampaign, merged};
pub use play::Report;
use play::{Ending, PlayOptions, check, make_images, play};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Plays scenarios. Exit code: 0 if all agree with their sources (or the lock holds), 1 if one does not, 2 if one did not
/// happen.
pub fn scenario(args: &ScenarioArgs) -> Result<i32> {
    if args.names.len() == 1 && args.names[0] == "list" {
        say!("{}", table::list(registry()).trim_end());
        return Ok(0);
    }
    let chosen = chosen(args)?;
    fencepost_engine::pick("driver", &args.driver, &fencepost_cluster::DRIVER_NAMES, |name| name)?;
    check_count("--jobs", args.jobs, JOBS_MAX)?;
    check_count("--times", args.times, RUNS_MAX)?;
    let seed = args.seed.unwrap_or_else(Seed::fresh);
    let stop = Arc::new(Stop::default());
    for scenario in &chosen {
        check(scenario, &options(args, seed, &stop, false)).map_err(|error| refusal(args, &error))?;
    }
    let runtime = crate::runtime::runtime()?;
    runtime.block_on(args.results.check())?;
    let part = part_of(args, &chosen, &options(args, seed, &stop, false))?;
    let (reports, stopped) = runtime.block_on(play_all(args, &chosen, seed, part.as_ref(), &stop));
    let many = chosen.len() > 1 || args.times > 1;
    let mut code = show(args.into(), &reports, many)?;
    let dealt = part.as_ref().map_or(0, |part| part.dealt.len());
    if let Some(part) = part {
        let finished = part.dealt.len() == reports.len() && reports.iter().all(part::is_done);
        code = with_files(SUBJECT, [part.writer.end(finished)], code);
        runtime.block_on(args.results.send(&part.folder));
    }
    let code = runtime.block_on(args.results.finish(code));
    runtime.shutdown_background();
    if stopped {
        let played = reports.iter().filter(|report| part::is_done(report)).count();
        let all = args.shard.map_or(chosen.len() * args.times, |_| dealt);
        anyhow::bail!("{}", interrupted(played, all));
    }
    Ok(code)
}

/// How far the plays came. One that Ctrl-C ended did not come to its end.
fn interrupted(played: usize, all: usize) -> String {
    let was = if played == 1 || all == 1 { "was" } else { "were" };
    format!("interrupted; {played} of {} {was} played to the end", count(all, "scenario"))
}

/// The part that is played here, if not all are.
fn part_of(
    args: &ScenarioArgs,
    chosen: &[Arc<Scenario>],
    options: &PlayOptions,
) -> Result<Option<ScenarioPart>> {
    let Some(shard) = args.shard else { return Ok(None) };
    let durations = compare::durations(args.durations.as_deref())?;
    let part = part::begin(args, shard, chosen, options, &durations)?;
    let count = format!(
        "{shard}: {} of {}, {} done before",
        part.dealt.len(),
        count(chosen.len() * args.times, "play"),
        part.before.len()
    );
    if !args.json {
        let folder = part.folder.display().to_string();
        say!("{}", terminal::rows(&[("part", &count), ("folder", &folder)]).trim_end());
    }
    Ok(Some(part))
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
    if let Some(at) = second_of_a_name(&args.names) {
        let name = &args.names[at];
        return Err(BadUsage(format!("{name} is named twice; --times plays a scenario several times")));
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
    part: Option<&ScenarioPart>,
    stop: &Arc<Stop>,
) -> (Vec<Report>, bool) {
    tokio::spawn(crate::runtime::listen_for_signals(stop.clone()));
    let alone = chosen.len() * args.times == 1;
    let jobs = if alone { 1 } else { args.jobs };
    if !alone {
        make_images(chosen, &options(args, seed, stop, false)).await;
    }
    let turns = chosen.iter().flat_map(|scenario| (0..args.times).map(move |turn| (scenario, turn)));
    let ours = (0..).zip(turns).filter(|(number, _)| part.is_none_or(|part| part.dealt.contains(number)));
    let places = Arc::new(Semaphore::new(jobs));
    let plays = ours.map(|(number, (scenario, turn))| {
        let options = options(args, part::turn_seed(seed, turn), stop, alone && !args.json);
        let places = places.clone();
        async move {
            if let Some(known) = part.and_then(|part| part.before.get(&number)) {
                return Some(known.clone());
            }
            let keep = |report: &Report| {
                let noted = part.map(|part| part.note(number, report));
                if let Some(Err(error)) = noted {
                    complain!("fencepost: {error:#}");
                }
            };
            play_in_turn(args, scenario.clone(), options, places, (jobs, alone), keep).await
        }
    });
    let reports: Vec<Option<Report>> = futures_util::stream::iter(plays).buffered(jobs).collect().await;
    let stopped = stop.reason() == Some(&Reason::Interrupted);
    (reports.into_iter().flatten().collect(), stopped)
}

/// Plays one when its turn comes; one that must not be disturbed takes all places. Its report is kept before it is shown.
async fn play_in_turn(
    args: &ScenarioArgs,
    scenario: Arc<Scenario>,
    options: PlayOptions,
    places: Arc<Semaphore>,
    (jobs, alone): (usize, bool),
    keep: impl Fn(&Report),
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
    keep(&report);
    if !alone && !args.json {
        say!("{}", table::line(&report));
    }
    Some(report)
}

/// Where outcomes are written.
pub struct ScenarioFiles<'a> {
    pub json: bool,
    pub markdown: Option<&'a Path>,
    pub junit: Option<&'a Path>,
}

impl<'a> From<&'a ScenarioArgs> for ScenarioFiles<'a> {
    fn from(args: &'a ScenarioArgs) -> ScenarioFiles<'a> {
        ScenarioFiles { json: args.json, markdown: args.markdown.as_deref(), junit: args.junit.as_deref() }
    }
}

/// What stands on the terminal before any file is written.
pub const SUBJECT: &str = "the outcome";

/// Prints the outcomes, and then writes the files that were asked for. Gives the exit code; see [`with_files`].
///
/// # Errors
/// A report cannot be printed as JSON.
pub fn show(args: ScenarioFiles, reports: &[Report], many: bool) -> Result<i32> {
    if args.json {
        say!("{}", serde_json::to_string_pretty(reports)?);
    } else if many {
        say!("\n{}", table::table(reports).trim_end());
    } else {
        reports.iter().for_each(|report| say!("\n{}", table::closing(report).trim_end()));
    }
    let put_junit =
        |path: &Path| Ok(write_whole(path, junit::xml("fencepost scenario", &[suite(reports)])?.as_bytes())?);
    let written = [args.markdown.map(|path| write_page(reports, path)), args.junit.map(put_junit)];
    Ok(with_files(SUBJECT, written.into_iter().flatten(), exit_code(reports)))
}

/// Writes the page, with the pictures that it shows beside it.
///
/// # Errors
/// A file cannot be written.
pub fn write_page(reports: &[Report], path: &Path) -> Result<()> {
    page::pictures(reports, path)?;
    Ok(write_whole(path, page::markdown(reports).as_bytes())?)
}

/// As [`write_page`], into the folder of a merge.
///
/// # Errors
/// A file cannot be written.
pub fn write_page_inside(reports: &[Report], folder: &Path, name: &str) -> Result<()> {
    page::pictures(reports, &folder.join(name))?;
    Ok(write_inside(folder, name, page::markdown(reports).as_bytes())?)
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
            Ending::Missing => junit::End::Undecided { message, kind: "missing" },
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

/// 0 all agree, 1 one does not, 2 one did not happen or is missing.
fn exit_code(reports: &[Report]) -> i32 {
    match repetitions::worst(reports) {
        Ending::Disagrees | Ending::DiffersFromTheSource | Ending::Broken => 1,
        Ending::DidNotHappen | Ending::Missing => 2,
        Ending::Agrees | Ending::Holds => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_played_before_an_interruption_is_counted_in_words() {
        assert_eq!(interrupted(0, 1), "interrupted; 0 of 1 scenario was played to the end");
        assert_eq!(interrupted(1, 3), "interrupted; 1 of 3 scenarios was played to the end");
        assert_eq!(interrupted(2, 3), "interrupted; 2 of 3 scenarios were played to the end");
    }
}
