//! `fencepost compare`: a matrix of locks and nemeses. The runs that are missing are made; the report compares them.

mod args;
mod matrix;
mod perform;

use crate::exit::FAILED;
use crate::output::{complain, say};
use crate::runtime::{listen_for_signals, runtime};
use anyhow::{Result, bail};
pub use args::CompareArgs;
use fencepost_engine::{BadUsage, Reason, Stop};
use fencepost_history::run::write_whole;
use fencepost_report::comparison::{self, Changes, Comparison, changes, of_runs, read_baseline};
use fencepost_report::pipeline::{self, github};
use fencepost_report::runs::{self, Run};
use fencepost_report::terminal;
use matrix::{JSON, Matrix, Turn, lock};
use perform::perform;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the runs that are not there, and tells what they say together.
pub fn compare(args: &CompareArgs) -> Result<i32> {
    let baseline = args
        .baseline
        .as_deref()
        .map(read_baseline)
        .transpose()
        .map_err(|error| BadUsage(error.to_string()))?;
    if !args.from.is_empty() {
        let comparison = existing(&args.from)?;
        write(args, &comparison, None)?;
        return tell(&comparison, baseline.as_ref());
    }
    let mut matrix = Matrix::new(args)?;
    let results = &args.results;
    let _alone = lock(results)?;
    let folder = matrix.folder(results, args.options.seed.is_some())?;
    let (todo, done) = split(&matrix, &runs::all(results)?);
    say!(
        "{}",
        terminal::rows(&[("repeat", &matrix.command()), ("seed", &matrix.seed.to_string())]).trim_end()
    );
    let plan = format!("{} to do, {done} done before, {} side by side", todo.len(), args.jobs);
    say!("{}", terminal::rows(&[("runs", &plan), ("folder", &folder.display().to_string())]));
    let stop = Arc::new(Stop::default());
    let runtime = runtime()?;
    let failures = runtime.block_on(async {
        tokio::spawn(listen_for_signals(stop.clone()));
        perform(todo, args.jobs, results, &stop).await
    });
    runtime.shutdown_background();
    let runs = runs::all(results)?;
    if stop.reason() == Some(&Reason::Interrupted) {
        let (left, done) = split(&matrix, &runs);
        bail!("interrupted; {done} runs are done, and the same command makes the other {}", left.len());
    }
    let comparison = matrix.comparison(&runs, &failures);
    write(args, &comparison, Some(&folder))?;
    let code = tell(&comparison, baseline.as_ref())?;
    for name in [folder.join("compare.html"), folder.join(JSON)] {
        say!("{}", terminal::rows(&[("written", &name.display().to_string())]).trim_end());
    }
    match failures.len() {
        0 => Ok(code),
        count => {
            let runs = if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
            complain!("fencepost: {runs} failed; the same command, with --seed {}, tries again", matrix.seed);
            Ok(if code == 0 { FAILED } else { code })
        }
    }
}

/// Runs that are to be made, and how many are there.
fn split(matrix: &Matrix, runs: &[Run]) -> (Vec<Turn>, usize) {
    let combinations = matrix.combinations().into_iter();
    let turns = combinations.filter_map(|combination| combination.turns.ok()).flatten();
    let (done, todo): (Vec<Turn>, Vec<Turn>) = turns.partition(|turn| turn.made(runs).is_some());
    (todo, done.len())
}

/// The runs that comparisons in this folder have made and not yet put together: the same command goes on from them.
pub fn runs_of_unfinished(results: &Path, runs: &[Run]) -> HashSet<PathBuf> {
    let unfinished = matrix::kept(results).into_iter().filter(|(path, _)| !path.join(JSON).exists());
    let turns = unfinished
        .flat_map(|(_, matrix)| matrix.combinations())
        .filter_map(|combination| combination.turns.ok())
        .flatten();
    turns.filter_map(|turn| Some(turn.made(runs)?.path.clone())).collect()
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

/// Writes the files that were asked for, and page and JSON into the comparison's folder, the JSON last: it says that all has
/// been tried.
fn write(args: &CompareArgs, comparison: &Comparison, folder: Option<&Path>) -> Result<()> {
    let json = serde_json::to_string_pretty(comparison)? + "\n";
    let put_page = |path: &Path| write_whole(path, comparison::html(comparison, &beside(path)).as_bytes());
    args.html.as_deref().map(put_page).transpose()?;
    if let Some(path) = &args.json {
        write_whole(path, json.as_bytes())?;
    }
    if let Some(path) = &args.markdown {
        write_whole(path, comparison::markdown(comparison).as_bytes())?;
    }
    if let Some(path) = &args.csv {
        write_whole(path, comparison::csv(comparison)?.as_bytes())?;
    }
    if let Some(path) = &args.junit {
        write_whole(
            path,
            pipeline::junit::xml("fencepost compare", &comparison::junit_suites(comparison))?.as_bytes(),
        )?;
    }
    if let Some(folder) = folder {
        put_page(&folder.join("compare.html"))?;
        write_whole(&folder.join(JSON), json.as_bytes())?;
    }
    Ok(())
}

/// The folder that a file lies in.
fn beside(path: &Path) -> PathBuf {
    path.parent().map_or(PathBuf::new(), Path::to_owned)
}

/// Says it on the terminal, and to GitHub. Gives the exit code.
fn tell(comparison: &Comparison, baseline: Option<&Comparison>) -> Result<i32> {
    say!("{}", comparison::terminal_text(comparison).trim_end());
    let changes = baseline.map(|baseline| changes(baseline, comparison));
    for line in changes.iter().flat_map(Changes::lines) {
        say!("{}", terminal::hang(&line, 8));
    }
    if github::is_there() {
        let lines = changes.iter().flat_map(Changes::lines).map(|line| format!("- {line}\n"));
        github::summarise(&format!("{}{}", lines.collect::<String>(), comparison::markdown(comparison)))?;
        let worse = changes.iter().flat_map(|changes| &changes.worse).map(|text| github::Annotation {
            level: github::Level::Error,
            title: "a property that held is violated".to_owned(),
            text: text.clone(),
        });
        github::annotate(&worse.collect::<Vec<_>>());
    }
    Ok(i32::from(changes.is_some_and(|changes| !changes.worse.is_empty())))
}
