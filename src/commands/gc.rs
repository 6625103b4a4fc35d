//! `fencepost gc`: removes old runs.

use crate::output::{complain, say};
use crate::store::Copied;
use anyhow::{Context, Result};
use clap::Args;
use fencepost_campaign::compare::runs_of_unfinished;
use fencepost_checker::Outcome;
use fencepost_engine::{BadUsage, check_range};
use fencepost_history::prose;
use fencepost_history::run::{RunFolder, is_running, point_latest};
use fencepost_report::runs::{self, Run, State};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which runs are to stay.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// Folder of all runs, or the object store with them.
    #[arg(long, default_value = "results", value_name = "FOLDER|STORE")]
    pub results: PathBuf,
    /// Number of the newest runs to keep of each kind (lock, workload, nemesis and guard).
    #[arg(long, default_value_t = 10)]
    pub keep: usize,
    /// Say what would be removed, and remove nothing. Runs that were not judged yet are judged.
    #[arg(long)]
    pub dry_run: bool,
}

/// Under such a name a folder is being removed: no longer a run, and never half of one.
const REMOVING: &str = ".removing-";

/// As many runs of a kind no folder holds. docs/running.md has the range, too.
const KEEP_MAX: usize = 1_000_000;

pub fn gc(args: &GcArgs) -> Result<i32> {
    check_range("--keep", args.keep, &(0..=KEEP_MAX))?;
    let Some(copied) = Copied::of(&args.results)? else { return gc_folder(args) };
    let runtime = crate::runtime::runtime()?;
    runtime.block_on(copied.refresh())?;
    let names = || runs::folders(&copied.folder);
    let before = names()?;
    let code = gc_folder(&GcArgs { results: copied.folder.clone(), ..*args })?;
    let after = names()?;
    for gone in before.iter().filter(|folder| !after.contains(folder)).filter_map(|folder| folder.file_name())
    {
        runtime.block_on(copied.remove(&gone.to_string_lossy()))?;
    }
    Ok(code)
}

/// Removes runs. Every run with a violation stays, the newest of each kind, runs that go on, runs of a
/// comparison that is not finished, runs that cannot be understood, and whatever is no run. A run that was
/// not judged is judged first, also where nothing is to be removed: what is said must be what would happen.
fn gc_folder(args: &GcArgs) -> Result<i32> {
    let results = &args.results;
    let all = runs::all(results).map_err(BadUsage::cannot("read the results folder", results))?;
    let (count, mut removed, mut bytes) = (all.len(), 0, 0);
    let mut kept = HashSet::new();
    let all: Vec<Run> = all.into_iter().map(|run| judged(run, &mut kept)).collect();
    if !args.dry_run {
        bytes += finish_removals(results)?;
    }
    let needed = runs_of_unfinished(results, &all);
    for run in spent(all, args.keep)
        .into_iter()
        .filter(|run| !needed.contains(&run.path) && !kept.contains(&run.path))
    {
        let of_run = size_bytes(&run.path);
        if !args.dry_run {
            remove(results, &run)?;
        }
        say!("{}  {}", run.name, megabytes(of_run));
        (removed, bytes) = (removed + 1, bytes + of_run);
    }
    if !args.dry_run {
        mend_latest(results)?;
    }
    let verb = if args.dry_run { "would be removed" } else { "removed" };
    say!("{removed} of {} {verb}, {}", prose::count(count, "run"), megabytes(bytes));
    Ok(0)
}

/// A run that ended before it was judged may hold a violation: it is judged first. One that goes on is left
/// alone. Where the verdict is not known, or cannot be kept, the run is added to those that are kept.
fn judged(run: Run, kept: &mut HashSet<PathBuf>) -> Run {
    let unjudged = matches!(run.state, State::NotJudged(..)) && !run.path.join("verdict.json").exists();
    if !unjudged || is_running(&run.path) {
        return run;
    }
    let judge = || fencepost_report::judge(&RunFolder::open(&run.path)?);
    match judge() {
        Ok(judged) => {
            if judged.unwritten.is_some() {
                kept.insert(run.path.clone());
            }
            runs::read(&run.path).unwrap_or(run)
        }
        Err(error) if has_history(&run.path) => {
            complain!("fencepost: the run {} stays, since it cannot be judged: {error:#}", run.name);
            kept.insert(run.path.clone());
            run
        }
        // Without a history there is nothing to judge.
        Err(_) => run,
    }
}

fn has_history(run: &Path) -> bool {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let is_history =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"history.jsonl");
    entries.filter(is_history).any(|entry| entry.metadata().map_or(true, |file| file.len() > 0))
}

/// Those that may go. `all` has the newest first.
fn spent(all: Vec<Run>, keep: usize) -> Vec<Run> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let spent = all.into_iter().filter(|run| {
        let Some(kind) = kind(run) else { return false };
        let of_kind = seen.entry(kind).or_default();
        *of_kind += 1;
        *of_kind > keep && !must_stay(run)
    });
    spent.collect()
}

/// Runs of the same lock, workload, nemesis and guard are of one kind. None: its run.toml cannot be read.
fn kind(run: &Run) -> Option<String> {
    let spec = &run.file()?.spec;
    let story = spec.scenario.clone().unwrap_or_else(|| spec.nemesis_name());
    Some([&spec.lock, &spec.workload, &story, &spec.guard].map(String::as_str).join("/"))
}

fn must_stay(run: &Run) -> bool {
    let violation = match &run.state {
        State::Judged(_, judgement) => judgement.outcome == Outcome::Violation,
        // A verdict that cannot be read may be one of a violation.
        State::NotJudged(..) => run.path.join("verdict.json").exists(),
        State::Damaged(_) => true,
    };
    violation || is_running(&run.path)
}

fn remove(results: &Path, run: &Run) -> Result<()> {
    let doomed = results.join(format!("{REMOVING}{}", run.name));
    fs::rename(&run.path, &doomed)
        .and_then(|()| fs::remove_dir_all(&doomed))
        .with_context(|| format!("cannot remove {}", run.path.display()))
}

fn finish_removals(results: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(results)? {
        let entry = entry?;
        let half_gone = entry.file_name().to_str().is_some_and(|name| name.starts_with(REMOVING));
        if half_gone && entry.file_type()?.is_dir() {
            bytes += size_bytes(&entry.path());
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(bytes)
}

/// `latest` names the newest run, also when the one that it named has gone.
fn mend_latest(results: &Path) -> Result<()> {
    let latest = results.join("latest");
    if fs::symlink_metadata(&latest).is_err() || latest.exists() {
        return Ok(());
    }
    match runs::all(results)?.first() {
        Some(newest) => Ok(point_latest(results, &newest.name)?),
        None => fs::remove_file(&latest).with_context(|| format!("cannot remove {}", latest.display())),
    }
}

/// Bytes of all files in a folder; links count nothing, wherever they lead.
fn size_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_bytes(&entry.path()),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    };
    entries.map(size).sum()
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use fencepost_cluster::for_tests::eventually;
    use std::collections::BTreeSet;

    fn run(results: &Path, name: &str, lock: &str, started: u64, outcome: Option<Outcome>) -> PathBuf {
        testing::run(results, name, outcome, |file| {
            (file.started, file.spec.lock) = (started, lock.to_owned());
        })
    }

    fn names(results: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(results).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn collect(results: &Path, keep: usize, dry_run: bool) {
        let args = GcArgs { results: results.to_owned(), keep, dry_run };
        assert_eq!(gc(&args).unwrap(), 0);
    }

    #[test]
    fn keeps_violations_the_newest_of_each_kind_and_whatever_is_no_run() {
        let results = tempfile::tempdir().unwrap();
        let at = results.path();
        for (started, name, verdict) in [
            (10, "redlock-1", Some(Outcome::Valid)),
            (20, "redlock-2", Some(Outcome::Violation)),
            (30, "redlock-3", None),
            (40, "redlock-4", Some(Outcome::Valid)),
            (50, "redlock-5", Some(Outcome::Valid)),
        ] {
            run(at, name, "redlock", started, verdict);
        }
        run(at, "etcd-1", "etcd", 5, Some(Outcome::Valid));
        let damaged = run(at, "redlock-0", "redlock", 1, Some(Outcome::Valid));
        fs::write(damaged.join("verdict.json"), "{\"outcome\":\"viol").unwrap();
        fs::create_dir(at.join("my-notes")).unwrap();
        fs::write(at.join("my-notes/run.txt"), "not a run").unwrap();
        fs::create_dir(at.join(".removing-redlock-9")).unwrap();
        std::os::unix::fs::symlink("redlock-5", at.join("latest")).unwrap();
        let before = names(at);
        collect(at, 2, true);
        assert_eq!(names(at), before, "a dry run removes nothing");
        collect(at, 2, false);
        let gone: Vec<_> = before.difference(&names(at)).cloned().collect();
        assert_eq!(gone, [".removing-redlock-9", "redlock-1", "redlock-3"]);
        assert_eq!(fs::read_link(at.join("latest")).unwrap(), Path::new("redlock-5"));
    }

    #[test]
    fn a_run_that_goes_on_stays_and_latest_names_the_newest() {
        let results = tempfile::tempdir().unwrap();
        let going = RunFolder::create(results.path(), &crate::testing::options().settings()).unwrap();
        going.write_run(&crate::testing::options().run_file(String::new())).unwrap();
        run(results.path(), "redlock-1", "redlock", 10, Some(Outcome::Violation));
        collect(results.path(), 0, false);
        let name = going.path.file_name().unwrap().to_str().unwrap().to_owned();
        let all = ["latest", &name, "redlock-1"].map(str::to_owned);
        assert_eq!(names(results.path()), BTreeSet::from(all));
        let path = going.path.clone();
        drop(going);
        // A process that another test begins at this moment has the lock of the run, too, until it is the
        // program it is to be.
        eventually("the run is over", || !is_running(&path));
        collect(results.path(), 0, false);
        assert_eq!(fs::read_link(results.path().join("latest")).unwrap(), Path::new("redlock-1"));
    }

    #[test]
    fn a_violation_that_was_not_judged_yet_stays() {
        let results = tempfile::tempdir().unwrap();
        let cut_off = run(results.path(), "redlock-1", "redlock", 10, None);
        let violation = include_str!("../../crates/report/src/fixtures/redlock-clock-jump.jsonl");
        fs::write(cut_off.join("history.jsonl"), violation).unwrap();
        run(results.path(), "redlock-2", "redlock", 20, None);
        collect(results.path(), 0, true);
        assert!(cut_off.join("verdict.json").is_file(), "a dry run must not call it removable");
        collect(results.path(), 0, false);
        assert_eq!(names(results.path()), BTreeSet::from(["redlock-1".to_owned()]));
    }

    #[test]
    fn links_out_of_the_folder_are_left_alone() {
        let (results, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = run(elsewhere.path(), "redlock-1", "redlock", 10, Some(Outcome::Valid));
        std::os::unix::fs::symlink(&path, results.path().join("linked")).unwrap();
        let own = run(results.path(), "redlock-2", "redlock", 20, Some(Outcome::Valid));
        std::os::unix::fs::symlink(elsewhere.path(), own.join("plots")).unwrap();
        collect(results.path(), 0, false);
        assert_eq!(names(results.path()), BTreeSet::from(["linked".to_owned()]));
        assert!(path.join("verdict.json").is_file());
    }
}
