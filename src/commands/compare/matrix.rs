//! Which runs a comparison consists of, and where it is kept, so that one that was ended early can go on.

use super::args::CompareArgs;
use super::report::JSON;
use crate::config::comes_from_file;
use anyhow::{Context, Result, bail};
use fencepost_engine::{
    BadUsage, Faults, JOBS_MAX, RUNS_MAX, RunOptions, RunSpec, check_count, check_once, find_lock, pick,
};
use fencepost_history::run::{RunFile, append_regular, now, read_regular, timestamp, write_inside};
use fencepost_history::{Seed, Shard, shell_word};
use fencepost_nemesis::{Nemesis, SWARM};
use fencepost_report::comparison::{Cell, CompareCampaign, Comparison, Row, cell, combination, servers};
use fencepost_report::parts::{Deal, Durations, deal};
use fencepost_report::runs::Run;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// What is to be compared. Two of the same seed consist of the same runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Matrix {
    pub seed: Seed,
    /// The part of the runs that is made here. None: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
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

/// The nemeses of a column: those that are joined, or all that a swarm draws from.
fn faults_of(joined: &str) -> Vec<&'static dyn Nemesis> {
    match joined.split('+').any(|name| name == SWARM) {
        true => fencepost_nemesis::registry().to_vec(),
        false => joined.split('+').filter_map(fencepost_nemesis::find).collect(),
    }
}

/// What a comparison consists of, and which part makes which of its runs.
pub struct MatrixPlan {
    /// With the numbers that runs have in the comparison.
    pub campaign: CompareCampaign,
    pub deal: Deal,
    /// The runs that are made here.
    pub runs: Vec<MatrixRun>,
}

impl MatrixPlan {
    /// The seeds of the runs that are made here, with which the names of their folders end.
    pub fn seeds(&self) -> HashSet<String> {
        let seeds = self.runs.iter().filter_map(|planned| planned.spec.options.seed);
        seeds.map(|seed| seed.to_string()).collect()
    }
}

/// A run of the matrix.
#[derive(Clone)]
pub struct MatrixRun {
    /// Its number in the comparison.
    pub run: u64,
    /// `redlock under clock-jump, 2 of 5`.
    pub label: String,
    pub spec: RunSpec,
    /// The hash of the lock's files as the comparison began, where it is a folder.
    files: Option<String>,
}

impl MatrixRun {
    /// The run that it became, if that has been made and judged.
    pub fn made<'a>(&self, runs: &JudgedRuns<'a>) -> Option<&'a Run> {
        let same_seed = runs.by_seed.get(&self.spec.seed.0)?;
        let settings = self.spec.options.settings();
        let files = |file: &RunFile| file.lock.as_ref().and_then(|lock| lock.files.clone());
        let is_this =
            |run: &&&Run| run.file().is_some_and(|file| file.spec == settings && files(file) == self.files);
        same_seed.iter().find(is_this).copied()
    }
}

/// Runs that were judged, to be found by their seeds.
pub struct JudgedRuns<'a> {
    by_seed: HashMap<u64, Vec<&'a Run>>,
}

impl<'a> JudgedRuns<'a> {
    pub fn of(runs: &'a [Run]) -> JudgedRuns<'a> {
        let mut by_seed: HashMap<u64, Vec<&Run>> = HashMap::new();
        for run in runs.iter().filter(|run| run.judgement().is_some()) {
            if let Some(file) = run.file() {
                by_seed.entry(file.spec.seed.0).or_default().push(run);
            }
        }
        JudgedRuns { by_seed }
    }
}

impl MatrixRun {
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
        check_count("--runs", args.runs, RUNS_MAX)?;
        check_count("--jobs", args.jobs, JOBS_MAX)?;
        args.check_unused()?;
        if args.shard.is_some() && args.options.seed.is_none() {
            return Err(BadUsage(
                "--shard needs --seed: all parts draw their runs from the same one".to_owned(),
            ));
        }
        let mut matrix = Matrix {
            seed: args.options.seed.unwrap_or_else(Seed::fresh),
            shard: args.shard,
            runs: args.runs,
            locks: all_or(&args.locks, real_locks),
            guards: args.guards.clone(),
            nemeses: all_or(&args.nemeses, every_nemesis),
            options: RunOptions { seed: None, ..args.options.clone() },
            files: BTreeMap::new(),
        };
        matrix.files = matrix.check_locks()?;
        matrix.check_names()?;
        let named: Vec<_> = matrix.nemeses.iter().flat_map(|joined| faults_of(joined)).collect();
        matrix.options = matrix.options.shaped_for(&named, Faults::Drawn, comes_from_file)?;
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
            check_once(option, names)?;
        }
        Ok(())
    }

    /// Lock and guard of each row.
    fn rows(&self) -> Vec<(&str, &str)> {
        let rows = self.locks.iter().flat_map(|lock| self.guards.iter().map(move |guard| (lock, guard)));
        rows.map(|(lock, guard)| (lock.as_str(), guard.as_str())).collect()
    }

    /// Which runs there are, and those that are made here.
    ///
    /// # Errors
    /// There is nothing that could be run.
    pub fn plan(&self, durations: &Durations) -> Result<MatrixPlan, BadUsage> {
        let mut campaign = CompareCampaign {
            layout: self.layout(),
            runs: self.runs,
            // The same in all parts.
            matrix: serde_json::to_value(Matrix { shard: None, ..self.clone() })
                .map_err(|error| BadUsage(format!("the comparison cannot be put into JSON: {error}")))?,
        };
        let mut lengths = Vec::new();
        let mut refusal = None;
        for (row, (lock, guard)) in self.rows().into_iter().enumerate() {
            for nemesis in &self.nemeses {
                let first = self.run_of_combination(lock, guard, nemesis, 1);
                let known = durations.of_ms(&combination(lock, guard, nemesis));
                let expected = |planned: &MatrixRun| planned.spec.expected().as_millis() as u64;
                let length = first.as_ref().ok().map(|planned| known.unwrap_or_else(|| expected(planned)));
                lengths.extend(std::iter::repeat_n(length, self.runs));
                let not_applicable = first.err();
                refusal = refusal.or_else(|| not_applicable.clone());
                campaign.layout.rows[row].cells.push(Cell { not_applicable, ..Cell::default() });
            }
        }
        if lengths.iter().all(Option::is_none) {
            return Err(BadUsage(refusal.unwrap_or_else(|| "there is nothing to compare".to_owned())));
        }
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        let deal = deal(&lengths, shard.of());
        let runs = deal.runs(shard.number()).into_iter().map(|run| self.run_of_number(run));
        let runs = runs.collect::<Result<_, _>>().map_err(BadUsage)?;
        Ok(MatrixPlan { campaign, deal, runs })
    }

    /// The run of that number in the comparison.
    fn run_of_number(&self, run: u64) -> Result<MatrixRun, String> {
        let (cell, number) = (run as usize / self.runs, run as usize % self.runs + 1);
        let (row, column) = (cell / self.nemeses.len(), cell % self.nemeses.len());
        let (lock, guard) = self.rows()[row];
        let planned = self.run_of_combination(lock, guard, &self.nemeses[column], number)?;
        Ok(MatrixRun { run, ..planned })
    }

    /// The comparison without any run, or any cell.
    fn layout(&self) -> Comparison {
        Comparison {
            fencepost: env!("CARGO_PKG_VERSION").to_owned(),
            command: String::new(),
            nemeses: self.nemeses.clone(),
            rows: self.rows().into_iter().map(|(lock, guard)| self.row(lock, guard)).collect(),
            left_out: Vec::new(),
            missing: Vec::new(),
        }
    }

    fn run_of_combination(
        &self,
        lock: &str,
        guard: &str,
        nemesis: &str,
        number: usize,
    ) -> Result<MatrixRun, String> {
        let nemeses = nemesis.split('+').filter(|name| *name != "none");
        let seed = self.seed.stream(&format!("{lock} {guard} {nemesis} {number}")).random::<u64>();
        let options = RunOptions {
            lock: lock.to_owned(),
            guard: guard.to_owned(),
            nemesis: nemeses.map(str::to_owned).collect(),
            // As short as a fresh one.
            seed: Some(Seed(seed >> 11)),
            ..self.options.clone().without_unused(&faults_of(nemesis))
        };
        let spec = RunSpec::new(options).map_err(|BadUsage(why)| why)?;
        let label = format!("{}, {number} of {}", combination(lock, guard, nemesis), self.runs);
        let files = self.files.get(lock).cloned();
        Ok(MatrixRun { run: 0, label, spec, files })
    }

    /// Repeats the comparison.
    pub fn command(&self) -> String {
        let lists = [("--locks", &self.locks), ("--guards", &self.guards), ("--nemeses", &self.nemeses)];
        let lists = lists.map(|(option, names)| format!("{option} {}", shell_word(&names.join(","))));
        let named = ["lock", "guard", "nemesis", "seed"];
        let settings = self.options.differing().into_iter();
        let settings = settings.filter(|(name, _)| !named.contains(&name.as_str())).map(|(_, words)| words);
        let words: Vec<String> = lists.into_iter().chain(settings).collect();
        let program = crate::commands::repeat::program();
        let shard = self.shard.map_or(String::new(), |shard| format!(" --shard {shard}"));
        format!("{program} compare {} --runs {} --seed {}{shard}", words.join(" "), self.runs, self.seed)
    }

    /// What came of it, from the runs that there are.
    pub fn comparison(&self, plan: &MatrixPlan, runs: &[Run], failures: &[(u64, String)]) -> Comparison {
        let runs = JudgedRuns::of(runs);
        let runs_by_number: HashMap<u64, Option<&Run>> =
            plan.runs.iter().map(|planned| (planned.run, planned.made(&runs))).collect();
        let mut comparison = plan.campaign.layout.clone();
        comparison.command = self.command();
        for (row, row_of) in comparison.rows.iter_mut().enumerate() {
            for (column, filled) in row_of.cells.iter_mut().enumerate() {
                if filled.not_applicable.is_some() {
                    continue;
                }
                let numbers: Vec<u64> =
                    (1..=self.runs).map(|number| plan.campaign.run(row, column, number)).collect();
                let found: Vec<&Run> =
                    numbers.iter().filter_map(|number| *runs_by_number.get(number)?).collect();
                let failed = failures.iter().filter(|(run, _)| numbers.contains(run));
                row_of.servers.extend(servers(found.iter()));
                *filled = Cell { failures: failed.map(|(_, why)| why.clone()).collect(), ..cell(&found) };
            }
            row_of.servers.sort();
            row_of.servers.dedup();
        }
        comparison
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
        let shard =
            self.shard.map_or(String::new(), |shard| format!("-{}-of-{}", shard.number(), shard.of()));
        let path = results.join(format!("compare-{}-{}{shard}", timestamp(now()), self.seed));
        fs::create_dir(&path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        let text = toml::to_string(self).context("cannot put the matrix into TOML")?;
        write_inside(&path, "matrix.toml", text.as_bytes())?;
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

/// The comparisons in a folder of results that can be read.
pub fn kept(results: &Path) -> Vec<(PathBuf, Matrix)> {
    let entries = fs::read_dir(results).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("compare-"));
    ours.filter_map(|entry| {
        let text = read_regular(&entry.path().join("matrix.toml")).ok()?;
        Some((entry.path(), toml::from_str(&text).ok()?))
    })
    .collect()
}

/// Keeps others from making a comparison in this folder, until it is dropped or the program ends in any way. Parts with other
/// numbers are made side by side: they have no run in common.
///
/// # Errors
/// Another process does.
pub fn lock(results: &Path, shard: Option<Shard>) -> Result<File> {
    fs::create_dir_all(results)
        .with_context(|| format!("cannot make the results folder {}", results.display()))?;
    let part = shard.map_or(String::new(), |shard| format!("-{}-of-{}", shard.number(), shard.of()));
    let path = results.join(format!(".compare{part}.lock"));
    let file = append_regular(&path).with_context(|| format!("cannot write {}", path.display()))?;
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
