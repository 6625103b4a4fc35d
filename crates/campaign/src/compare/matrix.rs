//! What a comparison consists of: which runs there are, by their numbers, and which part plays which of them.

use super::merged::{CompareCampaign, combination};
use crate::parts::{Assignment, Durations, RunKey, assign};
use crate::repeat::Repeat;
use crate::sitting::PlannedRun;
use anyhow::{Result, bail};
use fencepost_engine::{
    BadUsage, Faults, RunOptions, RunSpec, check_once, find_lock, named_reference, pick, refuse_option,
};
use fencepost_history::{Seed, Shard, shell_word};
use fencepost_nemesis::{Nemesis, SWARM};
use fencepost_report::comparison::{Cell, Comparison, Row};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// What is to be compared. Two of the same seed consist of the same runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Matrix {
    pub seed: Seed,
    /// The part of the runs that is made here. None: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The lock that the others are compared with, on the same servers and with the same seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    pub runs: usize,
    pub locks: Vec<String>,
    pub guards: Vec<String>,
    /// Each a nemesis, or several joined by `+`.
    pub nemeses: Vec<String>,
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

/// What a comparison consists of, and which part plays which of its runs.
pub struct MatrixPlan {
    /// With the numbers that runs have in the comparison.
    pub campaign: CompareCampaign,
    pub assignment: Assignment,
    pub runs: Vec<PlannedRun<MatrixRun>>,
}

impl MatrixPlan {
    /// The seeds of the runs that are played here, with which the names of their folders end.
    pub fn seeds(&self) -> HashSet<String> {
        let seeds = self.runs.iter().filter_map(|planned| planned.run.spec.options.seed);
        seeds.map(|seed| seed.to_string()).collect()
    }
}

#[derive(Clone)]
pub struct MatrixRun {
    pub spec: RunSpec,
    /// The hash of the lock's files as the comparison began, where it is a folder.
    pub files: Option<String>,
}

impl MatrixRun {
    /// Refuses to run a lock whose files have changed since the comparison began. Errors: they have.
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
    /// Looks up every name, and expands `all`. Unused options that `is_usual` names are left out; see
    /// [`RunOptions::shaped_for`]. Errors: an unknown name, or an option that has no effect.
    pub fn checked(mut self, is_usual: impl Fn(&str) -> bool) -> Result<Matrix, BadUsage> {
        self.locks = all_or(self.locks, real_locks);
        self.nemeses = all_or(self.nemeses, every_nemesis);
        self.add_reference()?;
        self.files = self.check_locks()?;
        self.check_names()?;
        let named: Vec<_> = self.nemeses.iter().flat_map(|joined| faults_of(joined)).collect();
        let options = self.options.clone().shaped_for(&named, Faults::Drawn, is_usual)?;
        Ok(Matrix { options, ..self })
    }

    fn add_reference(&mut self) -> Result<(), BadUsage> {
        let Some(against) = self.against.take() else { return Ok(()) };
        let named = self.locks.iter().map(|lock| named_reference(lock, &against));
        let named: Vec<Option<String>> = named.collect::<Result<_, _>>()?;
        self.against = named.into_iter().next().flatten();
        self.locks.extend(self.against.clone().filter(|against| !self.locks.contains(against)));
        Ok(())
    }

    fn check_locks(&self) -> Result<BTreeMap<String, String>, BadUsage> {
        let mut named: Vec<(&str, &str)> = Vec::new();
        let mut files = BTreeMap::new();
        for lock in &self.locks {
            let found = find_lock(lock)?;
            if let Some((_, other)) = named.iter().find(|(known, _)| *known == found.name) {
                refuse_option!(
                    "locks",
                    "--locks names two locks that are called {}: {other} and {lock}; rename one of the folders",
                    found.name
                );
            }
            named.push((found.name, lock));
            if let Some(hash) = found.files_hash().map_err(BadUsage::new)? {
                files.insert(lock.clone(), hash);
            }
        }
        Ok(files)
    }

    fn check_names(&self) -> Result<(), BadUsage> {
        for name in &self.guards {
            pick("guard", name, fencepost_storage::guards(), |guard| guard.name)?;
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

    fn rows(&self) -> Vec<(&str, &str)> {
        let rows = self.locks.iter().flat_map(|lock| self.guards.iter().map(move |guard| (lock, guard)));
        rows.map(|(lock, guard)| (lock.as_str(), guard.as_str())).collect()
    }

    /// Which runs there are, and those that are played here. Errors: there is nothing to run.
    pub fn plan(&self, durations: &Durations) -> Result<MatrixPlan, BadUsage> {
        let mut campaign = CompareCampaign {
            layout: self.layout(),
            runs: self.runs,
            // The same in all parts.
            matrix: serde_json::to_value(self.undivided())
                .map_err(|error| BadUsage::new(format!("the comparison cannot be put into JSON: {error}")))?,
        };
        let mut lengths = Vec::new();
        let mut refusal = None;
        for (row, (lock, guard)) in self.rows().into_iter().enumerate() {
            for nemesis in &self.nemeses {
                let first = self.spec(lock, guard, nemesis, 1);
                let known = durations.of_ms(&combination(lock, guard, nemesis));
                let expected = |spec: &RunSpec| spec.expected().as_millis() as u64;
                let length = first.as_ref().ok().map(|spec| known.unwrap_or_else(|| expected(spec)));
                lengths.extend(std::iter::repeat_n(length, self.runs));
                let not_applicable = first.err().map(|refused| refused.sentence);
                refusal = refusal.or_else(|| not_applicable.clone());
                campaign.layout.rows[row].cells.push(Cell { not_applicable, ..Cell::default() });
            }
        }
        if lengths.iter().all(Option::is_none) {
            return Err(BadUsage::new(refusal.unwrap_or_else(|| "there is nothing to compare".to_owned())));
        }
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        let assignment = assign(&lengths, shard.of());
        let runs = assignment.runs(shard.number()).into_iter().map(|number| self.run(number));
        let runs = runs.collect::<Result<_, _>>()?;
        Ok(MatrixPlan { campaign, assignment, runs })
    }

    /// The same for all parts.
    pub fn undivided(&self) -> Matrix {
        Matrix { shard: None, ..self.clone() }
    }

    fn run(&self, run: u64) -> Result<PlannedRun<MatrixRun>, BadUsage> {
        let (cell, number) = (run as usize / self.runs, run as usize % self.runs + 1);
        let (row, column) = (cell / self.nemeses.len(), cell % self.nemeses.len());
        let ((lock, guard), nemesis) = (self.rows()[row], &self.nemeses[column]);
        let spec = self.spec(lock, guard, nemesis, number)?;
        let name = combination(lock, guard, nemesis);
        let label = format!("{name}, {number} of {}", self.runs);
        Ok(PlannedRun {
            key: RunKey { number: run, label, name },
            expected: Some(spec.expected()),
            undisturbed: false,
            run: MatrixRun { spec, files: self.files.get(lock).cloned() },
        })
    }

    fn layout(&self) -> Comparison {
        Comparison {
            fencepost: env!("CARGO_PKG_VERSION").to_owned(),
            command: String::new(),
            nemeses: self.nemeses.clone(),
            rows: self.rows().into_iter().map(|(lock, guard)| self.row(lock, guard)).collect(),
            against: self.against.clone(),
            left_out: Vec::new(),
            missing: Vec::new(),
        }
    }

    fn spec(&self, lock: &str, guard: &str, nemesis: &str, number: usize) -> Result<RunSpec, BadUsage> {
        let nemeses = nemesis.split('+').filter(|name| *name != "none");
        let name = match self.against {
            Some(_) => format!("{nemesis} {number}"),
            None => format!("{lock} {guard} {nemesis} {number}"),
        };
        self.options.existing.check_unused()?;
        let seed = self.seed.stream(&name).random::<u64>();
        let options = RunOptions {
            lock: lock.to_owned(),
            guard: guard.to_owned(),
            nemesis: nemeses.map(str::to_owned).collect(),
            // As short as a fresh one.
            seed: Some(Seed(seed >> 11)),
            ..self.options.clone().without_unused(&faults_of(nemesis))
        };
        RunSpec::new(options)
    }

    pub fn command(&self, repeat: &Repeat) -> String {
        let lists = [("--locks", &self.locks), ("--guards", &self.guards), ("--nemeses", &self.nemeses)];
        let lists = lists.map(|(option, names)| format!("{option} {}", shell_word(&names.join(","))));
        // The lists say what a comparison has in place of these.
        let RunOptions { lock, guard, nemesis, seed, .. } = RunOptions::default();
        let settings = RunOptions { lock, guard, nemesis, seed, ..self.options.clone() }.arguments();
        let settings = Some(settings).filter(|settings| !settings.is_empty());
        let drawn = format!("--runs {} --seed {}", self.runs, self.seed);
        let shard = self.shard.map(|shard| format!("--shard {shard}"));
        let against = self.against.as_ref().map(|against| format!("--against {}", shell_word(against)));
        let lists = lists.into_iter().chain(against);
        let words = lists.chain(settings).chain([drawn]).chain(shard).chain(repeat.without_file());
        format!("{} compare {}", repeat.program, words.collect::<Vec<_>>().join(" "))
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
}

/// The names, or every one that there is where they are `all`.
fn all_or(names: Vec<String>, every: impl Fn() -> Vec<&'static str>) -> Vec<String> {
    match &names[..] {
        [all] if all == "all" => every().into_iter().map(str::to_owned).collect(),
        _ => names,
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
