//! `fencepost scenario`: plays directed runs on real servers, and compares them with what authors expect.

mod args;

use crate::commands::context::context;
use crate::output::{Terminal, complain, say};
use crate::runtime::{listen_for_signals, runtime};
use crate::unwritten::with_files;
use anyhow::{Result, bail};
pub use args::ScenarioArgs;
use fencepost_campaign::scenario::{
    PlayOptions, Report, ScenarioRequest, Shown, closing, exit_code, list, markdown, pictures, suite, table,
};
use fencepost_campaign::{ProgressLine, ResultsStore};
use fencepost_engine::scenario::{Scenario, find, read_file, registry};
use fencepost_engine::{BadUsage, JOBS_MAX, RUNS_MAX, Stop, StopReason, check_count, pick, refuse, unknown};
use fencepost_history::prose::{count, second_of_a_name};
use fencepost_history::run::{write_inside, write_whole};
use fencepost_history::{Seed, shell_word};
use fencepost_report::pipeline::junit;
use fencepost_report::terminal;
use std::path::Path;
use std::sync::Arc;

/// Exit code: 0 all agree with their sources (or the lock holds), 1 one does not, 2 one did not happen.
pub fn scenario(args: &ScenarioArgs) -> Result<i32> {
    if args.names.len() == 1 && args.names[0] == "list" {
        say!("{}", list(registry()).trim_end());
        return Ok(0);
    }
    let request = request(args)?;
    let runtime = runtime()?;
    runtime.block_on(args.results.check())?;
    let stop = Arc::new(Stop::default());
    let (is_one, lines) = (request.plays() == 1, Arc::new(Terminal));
    let shown = match (args.json, is_one) {
        (true, _) => Shown::Nothing,
        (false, true) => Shown::Narration,
        (false, false) => Shown::Endings,
    };
    let progress = match shown {
        Shown::Endings => ProgressLine::new(lines),
        Shown::Nothing | Shown::Narration => ProgressLine::hidden(lines),
    };
    let context = context(&args.results, &stop);
    let (mut sitting, folder) = request.begin(args.durations.as_deref(), context, shown)?;
    let all = sitting.runs.len();
    if let (Some(shard), Some(folder), false) = (args.shard, &folder, args.json) {
        let count =
            format!("{shard}: {all} of {}, {} done before", count(request.plays(), "play"), sitting.done());
        let folder = folder.display().to_string();
        say!("{}", terminal::rows(&[("part", &count), ("folder", &folder)]).trim_end());
    }
    runtime.block_on(async {
        tokio::spawn(listen_for_signals(stop.clone()));
        let jobs = if is_one { 1 } else { args.jobs };
        for error in sitting.play_scenarios(jobs, &progress).await {
            complain!("fencepost: {error:#}");
        }
    });
    let (played, ended) = (sitting.done(), sitting.end());
    let reports: Vec<Report> = sitting.outcomes.into_values().collect();
    let code = show(args.into(), &reports, request.plays() > 1)?;
    let code = with_files(SUBJECT, [ended], code);
    let code = runtime.block_on(async {
        if let Some(folder) = folder {
            args.results.send(&folder).await;
        }
        args.results.finish(code).await
    });
    runtime.shutdown_background();
    if stop.reason() == Some(&StopReason::Interrupted) {
        bail!("{}", interrupted(played, all));
    }
    Ok(code)
}

fn request(args: &ScenarioArgs) -> Result<ScenarioRequest, BadUsage> {
    let scenarios = chosen(args)?;
    pick("driver", &args.driver, &fencepost_cluster::DRIVER_NAMES, |name| name)?;
    check_count("--jobs", args.jobs, JOBS_MAX)?;
    check_count("--times", args.times, RUNS_MAX)?;
    let options = PlayOptions {
        lock: args.lock.clone(),
        driver: args.driver.clone(),
        seed: args.seed.unwrap_or_else(Seed::fresh),
        seed_given: args.seed.is_some(),
    };
    let names = match args.all {
        true => "--all".to_owned(),
        false => args.names.iter().map(|name| shell_word(name)).collect::<Vec<_>>().join(" "),
    };
    let request = ScenarioRequest { scenarios, names, times: args.times, shard: args.shard, options };
    request.check().map_err(|error| match &args.lock {
        Some(lock) => BadUsage::new(format!("this scenario cannot be played against {lock}: {error}")),
        None => BadUsage::new(error),
    })?;
    Ok(request)
}

/// How far the plays came. One that Ctrl-C ended did not come to its end.
fn interrupted(played: usize, all: usize) -> String {
    let was = if played == 1 || all == 1 { "was" } else { "were" };
    format!("interrupted; {played} of {} {was} played to the end", count(all, "scenario"))
}

fn chosen(args: &ScenarioArgs) -> Result<Vec<Arc<Scenario>>, BadUsage> {
    if args.all {
        return Ok(registry().iter().cloned().map(Arc::new).collect());
    }
    if args.names.is_empty() {
        let sentence = "name a scenario to play, or use --all; `fencepost scenario list` names them";
        return Err(BadUsage::new(sentence));
    }
    if let Some(at) = second_of_a_name(&args.names) {
        let name = &args.names[at];
        refuse!("{name} is named twice; --times plays a scenario several times");
    }
    args.names.iter().map(|name| one(name).map(Arc::new)).collect()
}

fn one(name: &str) -> Result<Scenario, BadUsage> {
    if let Some(scenario) = find(name) {
        return Ok(scenario);
    }
    if name.contains('/') || name.ends_with(".toml") {
        return read_file(Path::new(name));
    }
    let names: Vec<&str> = registry().iter().map(|scenario| scenario.name.as_str()).collect();
    Err(BadUsage::new(unknown("scenario", name, &names)))
}

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

pub const SUBJECT: &str = "the outcome";

/// Prints the outcomes, writes the requested files, and gives the exit code; see [`with_files`].
pub fn show(args: ScenarioFiles, reports: &[Report], many: bool) -> Result<i32> {
    if args.json {
        say!("{}", serde_json::to_string_pretty(reports)?);
    } else if many {
        say!("\n{}", table(reports).trim_end());
    } else {
        reports.iter().for_each(|report| say!("\n{}", closing(report).trim_end()));
    }
    let put_junit =
        |path: &Path| Ok(write_whole(path, junit::xml("fencepost scenario", &[suite(reports)])?.as_bytes())?);
    let written = [args.markdown.map(|path| write_page(reports, path)), args.junit.map(put_junit)];
    Ok(with_files(SUBJECT, written.into_iter().flatten(), exit_code(reports)))
}

/// Writes the page, with its pictures beside it. Errors: a file cannot be written.
pub fn write_page(reports: &[Report], path: &Path) -> Result<()> {
    pictures(reports, path)?;
    Ok(write_whole(path, markdown(reports).as_bytes())?)
}

/// As [`write_page`], into the folder of a merge. Errors: a file cannot be written.
pub fn write_page_inside(reports: &[Report], folder: &Path, name: &str) -> Result<()> {
    pictures(reports, &folder.join(name))?;
    Ok(write_inside(folder, name, markdown(reports).as_bytes())?)
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
