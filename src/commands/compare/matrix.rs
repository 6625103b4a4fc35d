//! Which runs a comparison consists of, and where it is kept, so that one that was ended early can go on.

use super::args::CompareArgs;
use anyhow::{Context, Result, bail};
use fencepost_engine::{BadUsage, RunOptions, RunSpec, find_lock, pick};
use fencepost_history::Seed;
use fencepost_history::run::{RunFile, now, timestamp, write_whole};
use fencepost_nemesis::SWARM;
use fencepost_report::comparison::{Cell, Comparison, Row, cell, servers};
use fencepost_report::runs::Run;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// What is to be compared. Two of the same seed consist of the same runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Matrix {
    pub seed: Seed,
    /// Runs of each combination.
    pub runs: usize,
    pub locks: Vec<String>,
    pub guards: Vec<String>,
    /// Each a nemesis, or several joined by `+`.
    pub nemeses: Vec<String>,
    /// Everything else, for all runs.
    pub options: RunOptions,
    /// The hash of the files of each lock that is a folder: with other files it is another lock.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// A combination.
pub struct Combination {
    pub row: usize,
    /// Its runs, or why there can be none.
    pub turns: Result<Vec<Turn>, String>,
}

/// A run of the matrix.
#[derive(Clone)]
pub struct Turn {
    /// `redlock under clock-jump, 2 of 5`.
    pub label: String,
    pub spec: RunSpec,
    /// The hash of the lock's files as the comparison began, where it is a folder.
    files: Option<String>,
}

impl Turn {
    /// The run that it became, if that has been made and judged.
    pub fn made<'a>(&self, runs: &'a [Run]) -> Option<&'a Run> {
        let settings = self.spec.options.settings();
        let files = |file: &RunFile| file.lock.as_ref().and_then(|lock| lock.files.clone());
        let is_this =
            |run: &&Run| run.file().is_some_and(|file| file.spec == settings && files(file) == self.files);
        runs.iter().filter(|run| run.judgement().is_some()).find(is_this)
    }
}

impl Turn {
    /// Refuses to run a lock whose files are not those with which the comparison began.
    ///
    /// # Errors
    /// One sentence that says so.
    pub fn check_files(&self) -> Result<()> {
        match (&self.files, self.spec.lock_files()?) {
            (Some(before), Some(now)) if *before != now => bail!(
                "the files of {} were changed while they were compared (hash {before} before, {now} now); compare again",
                self.spec.options.lock
            ),
            _ => Ok(()),
        }
    }
}

impl Matrix {
    /// What the command line asks for.
    ///
    /// # Errors
    /// A name that there is not, or nothing that could be run.
    pub fn new(args: &CompareArgs) -> Result<Matrix, BadUsage> {
        if args.runs == 0 || args.jobs == 0 {
            return Err(BadUsage("--runs and --jobs must be at least 1".to_owned()));
        }
        args.check_unused()?;
        let mut matrix = Matrix {
            seed: args.options.seed.unwrap_or_else(Seed::fresh),
            runs: args.runs,
            locks: all_or(&args.locks, real_locks),
            guards: args.guards.clone(),
            nemeses: all_or(&args.nemeses, every_nemesis),
            options: RunOptions { seed: None, ..args.options.clone() },
            files: BTreeMap::new(),
        };
        matrix.files = matrix.check_locks()?;
        matrix.check_names()?;
        let combinations = matrix.combinations();
        if combinations.iter().all(|combination| combination.turns.is_err()) {
            let reason = combinations.into_iter().find_map(|combination| combination.turns.err());
            return Err(BadUsage(reason.unwrap_or_else(|| "there is nothing to compare".to_owned())));
        }
        Ok(matrix)
    }

    /// Looks up every lock. Gives the hashes of the files of those that are folders.
    fn check_locks(&self) -> Result<BTreeMap<String, String>, BadUsage> {
        let mut named: Vec<(&str, &str)> = Vec::new();
        let mut files = BTreeMap::new();
        for lock in &self.locks {
            let found = find_lock(lock)?;
            if let Some((_, other)) = named.iter().find(|(known, _)| *known == found.name) {
                return Err(BadUsage(format!(
                    "--locks names two locks that are called {}: {other} and {lock}; rename one of the folders",
                    found.name
                )));
            }
            named.push((found.name, lock));
            if let Some(hash) = found.files_hash().map_err(BadUsage)? {
                files.insert(lock.clone(), hash);
            }
        }
        Ok(files)
    }

    fn check_names(&self) -> Result<(), BadUsage> {
        for name in &self.guards {
            pick("guard", name, fencepost_storage::guards(), |guard| guard.name())?;
        }
        for name in self.nemeses.iter().flat_map(|joined| joined.split('+')) {
            if name != "none" && name != SWARM {
                pick("nemesis", name, fencepost_nemesis::registry(), |nemesis| nemesis.name())?;
            }
        }
        for (option, names) in
            [("--locks", &self.locks), ("--guards", &self.guards), ("--nemeses", &self.nemeses)]
        {
            if let Some(twice) =
                names.iter().find(|name| names.iter().filter(|other| other == name).count() > 1)
            {
                return Err(BadUsage(format!("{option} names {twice} twice; name each once")));
            }
        }
        Ok(())
    }

    /// Lock and guard of each row.
    fn rows(&self) -> Vec<(&str, &str)> {
        let rows = self.locks.iter().flat_map(|lock| self.guards.iter().map(move |guard| (lock, guard)));
        rows.map(|(lock, guard)| (lock.as_str(), guard.as_str())).collect()
    }

    /// All combinations, row by row.
    pub fn combinations(&self) -> Vec<Combination> {
        let mut combinations = Vec::new();
        for (row, (lock, guard)) in self.rows().into_iter().enumerate() {
            for nemesis in &self.nemeses {
                let turns = (1..=self.runs).map(|number| self.turn(lock, guard, nemesis, number)).collect();
                combinations.push(Combination { row, turns });
            }
        }
        combinations
    }

    fn turn(&self, lock: &str, guard: &str, nemesis: &str, number: usize) -> Result<Turn, String> {
        let nemeses = nemesis.split('+').filter(|name| *name != "none");
        let seed = self.seed.stream(&format!("{lock} {guard} {nemesis} {number}")).random::<u64>();
        let options = RunOptions {
            lock: lock.to_owned(),
            guard: guard.to_owned(),
            nemesis: nemeses.map(str::to_owned).collect(),
            // As short as a fresh one.
            seed: Some(Seed(seed >> 11)),
            ..self.options.clone()
        };
        let spec = RunSpec::new(options).map_err(|BadUsage(why)| why)?;
        let guarded = if guard == "none" { String::new() } else { format!(" with {guard}") };
        let label = format!("{lock}{guarded} under {nemesis}, {number} of {}", self.runs);
        let files = self.files.get(lock).cloned();
        Ok(Turn { label, spec, files })
    }

    /// Repeats the comparison.
    pub fn command(&self) -> String {
        let lists = [("--locks", &self.locks), ("--guards", &self.guards), ("--nemeses", &self.nemeses)];
        let lists = lists.map(|(option, names)| format!("{option} {}", names.join(",")));
        let named = ["lock", "guard", "nemesis", "seed"];
        let settings = self.options.differing().into_iter();
        let settings = settings.filter(|(name, _)| !named.contains(&name.as_str())).map(|(_, words)| words);
        let words: Vec<String> = lists.into_iter().chain(settings).collect();
        let program = crate::commands::repeat::program();
        format!("{program} compare {} --runs {} --seed {}", words.join(" "), self.runs, self.seed)
    }

    /// What came of it, from the runs that there are.
    pub fn comparison(&self, runs: &[Run], failures: &[(RunOptions, String)]) -> Comparison {
        let mut rows: Vec<Row> = self.rows().into_iter().map(|(lock, guard)| self.row(lock, guard)).collect();
        for combination in self.combinations() {
            let filled = match &combination.turns {
                Err(why) => Cell { not_applicable: Some(why.clone()), ..Cell::default() },
                Ok(turns) => {
                    let found: Vec<&Run> = turns.iter().filter_map(|turn| turn.made(runs)).collect();
                    let failed = failures
                        .iter()
                        .filter(|(options, _)| turns.iter().any(|turn| turn.spec.options == *options));
                    rows[combination.row].servers.extend(servers(found.iter()));
                    Cell { failures: failed.map(|(_, why)| why.clone()).collect(), ..cell(&found) }
                }
            };
            rows[combination.row].cells.push(filled);
        }
        for row in &mut rows {
            row.servers.sort();
            row.servers.dedup();
        }
        Comparison {
            fencepost: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command(),
            nemeses: self.nemeses.clone(),
            rows,
            left_out: Vec::new(),
        }
    }

    fn row(&self, lock: &str, guard: &str) -> Row {
        let settings = self.options.distinguishing_arguments();
        Row {
            lock: lock.to_owned(),
            guard: guard.to_owned(),
            settings,
            servers: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// The folder of this comparison: that of one that is the same and was not finished, whose seed it then takes on, or, if
    /// `fixed`, of one with the same seed; else a new one.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn folder(&mut self, results: &Path, fixed: bool) -> Result<PathBuf> {
        let mut known: Vec<(PathBuf, Matrix)> = kept(results);
        known.sort_by(|(one, _), (other, _)| other.cmp(one));
        let same = known.into_iter().find(|(path, other)| match fixed {
            true => other == self,
            false => !path.join(JSON).exists() && Matrix { seed: self.seed, ..other.clone() } == *self,
        });
        if let Some((path, other)) = same {
            self.seed = other.seed;
            return Ok(path);
        }
        let path = results.join(format!("compare-{}-{}", timestamp(now()), self.seed));
        fs::create_dir(&path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        let text = toml::to_string(self).context("cannot put the matrix into TOML")?;
        write_whole(&path.join("matrix.toml"), text.as_bytes())?;
        Ok(path)
    }
}

/// The names, or every one that there is where they are `all`.
fn all_or(names: &[String], every: impl Fn() -> Vec<&'static str>) -> Vec<String> {
    match names {
        [all] if all == "all" => every().into_iter().map(str::to_owned).collect(),
        names => names.to_vec(),
    }
}

/// Those that mean to be a lock: the canary is there to be caught.
fn real_locks() -> Vec<&'static str> {
    let names = fencepost_locks::registry().iter().map(|lock| lock.name);
    names.filter(|name| !name.starts_with("canary")).collect()
}

fn every_nemesis() -> Vec<&'static str> {
    std::iter::once("none")
        .chain(fencepost_nemesis::registry().iter().map(|nemesis| nemesis.name()))
        .collect()
}

/// What a finished comparison leaves.
pub const JSON: &str = "compare.json";

/// The comparisons in a folder of results that can be read.
pub fn kept(results: &Path) -> Vec<(PathBuf, Matrix)> {
    let entries = fs::read_dir(results).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("compare-"));
    ours.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("matrix.toml")).ok()?;
        Some((entry.path(), toml::from_str(&text).ok()?))
    })
    .collect()
}

/// Keeps others from making a comparison in this folder, until it is dropped or the program ends in any way.
///
/// # Errors
/// Somebody else does.
pub fn lock(results: &Path) -> Result<File> {
    fs::create_dir_all(results)
        .with_context(|| format!("cannot make the results folder {}", results.display()))?;
    let path = results.join(".compare.lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BadUsage(format!(
            "another `fencepost compare` is at work in {}; wait for it, or use another --results",
            results.display()
        ))
        .into()),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}
