//! The command `fencepost compare`.

use super::matrix::{JSON, Matrix, Turn, lock};
use super::perform::perform;
use crate::{FAILED, say};
use anyhow::{Result, bail};
use clap::Args;
use fencepost_engine::{BadUsage, Reason, RunOptions, Stop};
use fencepost_history::run::write_whole;
use fencepost_report::comparison::{self, Changes, Comparison, changes, of_runs, read_baseline};
use fencepost_report::pipeline::{self, github};
use fencepost_report::runs::{self, Run};
use fencepost_report::terminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SEED: &str = "The seed that all runs draw theirs from [default: that of the same comparison if it was ended early, \
                    else a fresh one]";

/// Runs every lock under every nemesis, and shows in one matrix which promises hold. A comparison that was ended early
/// goes on where it was when the same command is given again.
///
/// Exit code: 0 once all runs are judged, whatever came of them; with --baseline 1 if a promise that held is broken; 255
/// if a run failed.
#[derive(Debug, Args)]
#[command(
    mut_arg("lock", |arg| arg.hide(true)),
    mut_arg("nemesis", |arg| arg.hide(true)),
    mut_arg("nemesis_file", |arg| arg.hide(true)),
    mut_arg("guard", |arg| arg.hide(true)),
    mut_arg("seed", |arg| arg.help(SEED)),
)]
pub struct CompareArgs {
    /// The locks to compare, or `all` (see `fencepost list locks`).
    #[arg(
        long,
        visible_alias = "backends",
        value_delimiter = ',',
        default_value = "redis-single,redlock,etcd,zookeeper-sequential"
    )]
    pub locks: Vec<String>,
    /// What goes wrong: a column for each, or `all`; several at once are joined by `+` (see `fencepost list nemeses`).
    #[arg(long, value_delimiter = ',', default_value = "none,clock-jump,pause,delay,partition,power-loss")]
    pub nemeses: Vec<String>,
    /// What the storage checks before it accepts a write: a row for each (see `fencepost list guards`).
    #[arg(long, value_delimiter = ',', default_value = "none")]
    pub guards: Vec<String>,
    /// Runs of each combination.
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// Runs that go on side by side.
    #[arg(long, default_value_t = 1)]
    pub jobs: usize,
    /// Compare runs that exist, in place of making some: folders of runs, or folders of such folders.
    #[arg(long, value_name = "FOLDER", num_args = 1.., conflicts_with_all = ["locks", "nemeses", "guards", "runs", "seed"])]
    pub from: Vec<PathBuf>,
    /// An earlier compare.json: tell what changed since. Exit code 1 if a promise that held is broken.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write the comparison as a page [default: compare.html in the folder of the comparison, beneath --results].
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write it as JSON, for --baseline too [default: compare.json, as the page].
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write it as Markdown.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write it as CSV: a line for each run.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write it as JUnit XML: a case for each promise under each nemesis.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Folder of all runs.
    #[arg(long, default_value = "results")]
    pub results: PathBuf,
    #[command(flatten)]
    pub options: RunOptions,
}

impl CompareArgs {
    /// Refuses the options of a single run that a comparison has lists for.
    pub fn check_unused(&self) -> Result<(), BadUsage> {
        let RunOptions { lock, guard, nemesis, nemesis_file, .. } = &self.options;
        let default = RunOptions::default();
        let given = [
            (*lock != default.lock, "--lock", "--locks"),
            (*guard != default.guard, "--guard", "--guards"),
            (nemesis != &["none"], "--nemesis", "--nemeses"),
            (nemesis_file.is_some(), "--nemesis-file", "--nemeses"),
        ];
        match given.into_iter().find(|(given, ..)| *given) {
            Some((_, option, list)) => Err(BadUsage(format!(
                "{option} is an option of `fencepost test`; use {list} to compare several"
            ))),
            None => Ok(()),
        }
    }
}

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
    let runtime = crate::runtime()?;
    let failures = runtime.block_on(async {
        tokio::spawn(crate::test::listen_for_signals(stop.clone()));
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
            eprintln!("fencepost: {runs} failed; the same command, with --seed {}, tries again", matrix.seed);
            Ok(if code == 0 { FAILED } else { code })
        }
    }
}

/// Runs that are to be made, and how many are there.
fn split(matrix: &Matrix, runs: &[Run]) -> (Vec<Turn>, usize) {
    let combinations = matrix.combinations().into_iter();
    let turns = combinations.filter_map(|combination| combination.turns.ok()).flatten();
    let there = |turn: &Turn| {
        runs.iter().any(|run| {
            run.judgement().is_some()
                && run.file().is_some_and(|file| file.spec == turn.spec.options.settings())
        })
    };
    let (done, todo): (Vec<Turn>, Vec<Turn>) = turns.partition(there);
    (todo, done.len())
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
            title: "a promise that held is broken".to_owned(),
            text: text.clone(),
        });
        github::annotate(&worse.collect::<Vec<_>>());
    }
    Ok(i32::from(changes.is_some_and(|changes| !changes.worse.is_empty())))
}
