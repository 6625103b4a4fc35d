//! What many runs say together, as `compare.json` keeps it.

use super::confidence::{CellConfidence, confidence};
use super::difference::CellDifference;
use super::figures::{RunFigures, TEST_ITSELF, outcome_of};
use crate::runs::{Judgement, Run};
use fencepost_checker::{
    Figures, Harm, LOSS_NOTICE_LONGEST, LOSS_NOTICE_NEVER, LeadershipFigures, LostAdditionsFigures,
    LostUpdatesFigures, Metric, Outcome, Unjudged, registry,
};
use fencepost_history::Seed;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Locks down, nemeses across.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    pub fencepost: String,
    /// Makes its runs once more; empty where they were not made by one command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    pub nemeses: Vec<String>,
    pub rows: Vec<Row>,
    /// The lock that the others are compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Of a comparison that was merged from parts: what is not there, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A lock with its guard and its settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub lock: String,
    pub guard: String,
    /// What sets its runs apart from others of the lock, as on the command line; empty where nothing does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settings: String,
    pub servers: Vec<String>,
    pub cells: Vec<Cell>,
}

/// A lock under a nemesis.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applicable: Option<String>,
    pub outcomes: Outcomes,
    /// What the violations mean: in how many runs there was each, the worst first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub harms: BTreeMap<Harm, usize>,
    /// In the order of the checkers.
    pub properties: Vec<PropertyOutcomes>,
    /// The checkers that judged none of the runs, with the reason in the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<Unjudged>,
    /// Of the updates that the storage had acknowledged. None where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<CellLost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<CellCosts>,
    /// How holders learned that they had lost the lock. None where none lost it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_notice: Option<CellLossNotice>,
    /// The longest time without a leader. None of locks that are no elections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_leader: Option<CellWithoutLeader>,
    /// How much confidence its verdict deserves. None in older comparisons, and without runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "worth")]
    pub confidence: Option<CellConfidence>,
    /// How it stands to the same cell of the reference. None without a reference, or if one says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<CellDifference>,
    /// In the order of their seeds in the matrix, or the oldest first.
    pub runs: Vec<CellRun>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// How many runs of it belong to parts that were not merged, or did not finish.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A property in all runs of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PropertyOutcomes {
    pub checker: String,
    /// Whether the lock claims it; one that it does not claim does not count in the cell's outcomes.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub claimed: bool,
    pub outcomes: Outcomes,
    /// What its violations mean, as of the whole cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub harms: BTreeMap<Harm, usize>,
    /// What was seen in the first run that ended as the whole does.
    pub summary: String,
}

fn yes() -> bool {
    true
}

/// How many runs had each outcome. A property in a run that tested nothing is vacuous, unless violated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    pub valid: usize,
    pub vacuous: usize,
    pub unknown: usize,
    pub violation: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellLost {
    pub lost: u64,
    pub acknowledged: u64,
    /// With its 95 % interval.
    pub share: Metric,
}

/// Of the runs in which a lock was gone before its holder let go of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellLossNotice {
    /// How long after that a holder learned of it, at most. None where none did.
    pub longest_ms: Option<f64>,
    /// The share of losses of which the holder never learned: the median of the runs.
    pub never_percent: f64,
}

/// For how long an election had no leader while a process campaigned: the longest of all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellWithoutLeader {
    pub at_least_ms: u64,
    pub at_most_ms: u64,
}

/// What the lock cost: medians over the runs, and of the time to recover the longest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellCosts {
    pub acquire_median_ms: Option<f64>,
    pub acquire_p99_ms: Option<f64>,
    pub acquisitions_per_s: f64,
    pub recovery_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellRun {
    pub name: String,
    pub outcome: Outcome,
    pub seed: Seed,
    /// Repeats it.
    pub command: String,
    #[serde(skip)]
    pub path: PathBuf,
    /// For a table of all runs. None in a comparison that was read from its file.
    #[serde(skip)]
    pub figures: Option<RunFigures>,
}

/// What a cell takes of a run that was judged.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MadeRun {
    pub name: String,
    pub seed: Seed,
    pub command: String,
    pub servers: Vec<String>,
    pub judgement: Arc<Judgement>,
    #[serde(skip)]
    pub path: PathBuf,
}

impl MadeRun {
    pub fn of(run: &Run) -> Option<MadeRun> {
        let (file, judgement) = (run.file()?, run.judgement()?);
        Some(MadeRun {
            name: run.name.clone(),
            seed: file.spec.seed,
            command: file.command.clone(),
            servers: versions(&file.servers),
            judgement: judgement.clone(),
            path: run.path.clone(),
        })
    }
}

impl Outcomes {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Valid => self.valid += 1,
            Outcome::Vacuous => self.vacuous += 1,
            Outcome::Unknown => self.unknown += 1,
            Outcome::Violation => self.violation += 1,
        }
    }

    pub fn runs(&self) -> usize {
        self.valid + self.vacuous + self.unknown + self.violation
    }

    /// All together: violated or unknown if one run is, vacuous if none tested it. None without any run.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            _ if self.violation > 0 => Some(Outcome::Violation),
            _ if self.unknown > 0 => Some(Outcome::Unknown),
            _ if self.valid > 0 => Some(Outcome::Valid),
            _ if self.vacuous > 0 => Some(Outcome::Vacuous),
            _ => None,
        }
    }
}

impl FromIterator<Outcome> for Outcomes {
    fn from_iter<I: IntoIterator<Item = Outcome>>(outcomes: I) -> Outcomes {
        let mut all = Outcomes::default();
        outcomes.into_iter().for_each(|outcome| all.add(outcome));
        all
    }
}

impl Cell {
    /// Why it says little that all properties held, as clauses; empty where that is no question.
    pub fn weak(&self) -> &[String] {
        let held = self.outcomes.outcome() == Some(Outcome::Valid);
        self.confidence.as_ref().filter(|_| held).map_or(&[], |confidence| &confidence.weak)
    }
}

impl Row {
    pub fn worst(&self) -> Option<Harm> {
        self.cells.iter().filter_map(|cell| cell.harms.keys().next()).min().copied()
    }

    fn badness(&self) -> Vec<usize> {
        let worst_of = |cell: &Cell| cell.harms.keys().next().copied();
        Harm::ALL.map(|harm| self.cells.iter().filter(|cell| worst_of(cell) == Some(harm)).count()).to_vec()
    }

    /// Whether the other one is about the same lock, used in the same way.
    pub fn same(&self, other: &Row) -> bool {
        (&self.lock, &self.guard, &self.settings) == (&other.lock, &other.guard, &other.settings)
    }

    pub fn same_but_for_servers(&self, other: &Row) -> bool {
        let of = |row: &Row| {
            let (lock, server) = row.lock.rsplit_once('@').unwrap_or((&row.lock, ""));
            let lock = if names_a_version(server) { lock } else { row.lock.as_str() }.to_owned();
            let mut words: Vec<&str> = row.settings.split(' ').collect();
            if let Some(place) = words.iter().position(|word| *word == "--server") {
                words.drain(place..words.len().min(place + 2));
            }
            (lock, row.guard.clone(), words.join(" "))
        };
        of(self) == of(other)
    }
}

/// Whether the end of a lock's name is a server in one of its versions: `redis-7.0`, `3.4`.
fn names_a_version(end: &str) -> bool {
    let version = end.rsplit_once('-').map_or(end, |(_, version)| version);
    !version.is_empty()
        && version.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

impl Comparison {
    /// The best locks first, by their worst results; a row that is not applicable becomes a remark.
    pub fn best_first(&self) -> Comparison {
        let is_applicable = |row: &&Row| row.cells.iter().any(|cell| cell.not_applicable.is_none());
        let why =
            |row: &Row| row.cells.iter().find_map(|cell| cell.not_applicable.clone()).unwrap_or_default();
        let others = self.rows.iter().filter(|row| !is_applicable(row));
        let others = others.map(|row| format!("{}, which is not applicable: {}", self.label(row), why(row)));
        let left_out: Vec<String> = others.chain(self.left_out.iter().cloned()).collect();
        let same_lock = |a: &Row, b: &Row| (&a.lock, &a.settings) == (&b.lock, &b.settings);
        let mut locks: Vec<Vec<Row>> = Vec::new();
        for row in self.rows.iter().filter(is_applicable) {
            match locks.iter_mut().find(|rows| same_lock(&rows[0], row)) {
                Some(rows) => rows.push(row.clone()),
                None => locks.push(vec![row.clone()]),
            }
        }
        locks.sort_by_key(|rows| rows.iter().map(Row::badness).collect::<Vec<_>>());
        Comparison { rows: locks.concat(), left_out, ..self.clone() }
    }

    /// `etcd`, `etcd, guard token`, and what sets the row apart from others of the same comparison.
    pub fn label(&self, row: &Row) -> String {
        let guard = if row.guard == "none" { String::new() } else { format!(", guard {}", row.guard) };
        let common = self.common_settings().is_some() || row.settings.is_empty();
        let settings = if common { String::new() } else { format!(" {}", row.settings) };
        format!("{}{guard}{settings}", row.lock)
    }

    /// The settings that all rows have, if they are the same.
    pub fn common_settings(&self) -> Option<&str> {
        let first = self.rows.first()?;
        self.rows.iter().all(|row| row.settings == first.settings).then_some(&first.settings)
    }

    /// The checkers of properties that any run says something about, but for the one about the test itself.
    pub fn checkers(&self) -> Vec<&'static str> {
        let cells = || self.rows.iter().flat_map(|row| &row.cells);
        let said = |name: &str| cells().flat_map(|cell| &cell.properties).any(|kept| kept.checker == name);
        registry()
            .iter()
            .map(|checker| checker.name)
            .filter(|name| *name != TEST_ITSELF && said(name))
            .collect()
    }
}

/// A cell from its runs. It keeps no judgement: those of many runs do not fit into memory.
pub fn cell(runs: Vec<MadeRun>) -> Cell {
    let judgements: Vec<&Judgement> = runs.iter().map(|run| &*run.judgement).collect();
    let cell = Cell {
        outcomes: judgements.iter().map(|judgement| judgement.outcome).collect(),
        harms: counted(judgements.iter().flat_map(|judgement| judgement.harms.iter().copied())),
        properties: registry().iter().filter_map(|checker| kept(checker.name, &judgements)).collect(),
        not_judged: not_judged(&judgements),
        lost: lost(&judgements),
        costs: costs(&judgements),
        loss_notice: loss_notice(&judgements),
        without_leader: without_leader(&judgements),
        confidence: (!judgements.is_empty()).then(|| confidence(&judgements)),
        ..Cell::default()
    };
    Cell { runs: runs.into_iter().map(cell_run).collect(), ..cell }
}

fn cell_run(run: MadeRun) -> CellRun {
    let (outcome, figures) = (run.judgement.outcome, Some(RunFigures::of(&run.judgement)));
    CellRun { name: run.name, outcome, seed: run.seed, command: run.command, path: run.path, figures }
}

fn kept(checker: &str, judgements: &[&Judgement]) -> Option<PropertyOutcomes> {
    let said: Vec<(Outcome, &str)> =
        judgements.iter().filter_map(|judgement| outcome_of(checker, judgement)).collect();
    let outcomes: Outcomes = said.iter().map(|(outcome, _)| *outcome).collect();
    let whole = outcomes.outcome()?;
    let (_, summary) = said.iter().find(|(outcome, _)| *outcome == whole)?;
    let claimed =
        judgements.iter().filter_map(|judgement| judgement.of_checker(checker)).all(|each| each.claimed);
    let violated = judgements.iter().filter_map(|judgement| judgement.of_checker(checker));
    let violated = violated.filter(|each| each.outcome == Outcome::Violation);
    let harms = counted(violated.flat_map(|each| each.harms.iter().copied()));
    let summary = (*summary).to_owned();
    Some(PropertyOutcomes { checker: checker.to_owned(), claimed, outcomes, harms, summary })
}

fn counted(harms: impl Iterator<Item = Harm>) -> BTreeMap<Harm, usize> {
    let mut counts = BTreeMap::new();
    harms.for_each(|harm| *counts.entry(harm).or_default() += 1);
    counts
}

fn not_judged(judgements: &[&Judgement]) -> Vec<Unjudged> {
    let Some(first) = judgements.first() else { return Vec::new() };
    let never =
        |unjudged: &&Unjudged| judgements.iter().all(|run| run.of_checker(&unjudged.checker).is_none());
    first.not_judged.iter().filter(never).cloned().collect()
}

fn lost(judgements: &[&Judgement]) -> Option<CellLost> {
    let updates = decided::<LostUpdatesFigures>(judgements);
    let additions = decided::<LostAdditionsFigures>(judgements);
    let pairs = updates.iter().map(|each| (each.lost, each.acknowledged));
    let pairs = pairs.chain(additions.iter().map(|each| (each.lost, each.acknowledged)));
    let (lost, acknowledged) =
        pairs.fold((0, 0), |(lost, all), (lost_here, all_here)| (lost + lost_here, all + all_here));
    let share = Metric::share("acknowledged updates lost", lost as usize, acknowledged as usize);
    (acknowledged > 0).then_some(CellLost { lost, acknowledged, share })
}

/// What a checker counted in the runs in which it came to a verdict.
fn decided<F: Figures>(judgements: &[&Judgement]) -> Vec<F> {
    let is_decided = |judgement: &&&Judgement| {
        judgement.of_checker(F::CHECKER).is_some_and(|property| property.outcome != Outcome::Unknown)
    };
    judgements.iter().filter(is_decided).filter_map(|judgement| judgement.figures()).collect()
}

fn costs(judgements: &[&Judgement]) -> Option<CellCosts> {
    let all = || judgements.iter().map(|judgement| &judgement.costs);
    Some(CellCosts {
        acquire_median_ms: median(all().filter_map(|costs| costs.acquire_median_ms)),
        acquire_p99_ms: median(all().filter_map(|costs| costs.acquire_p99_ms)),
        acquisitions_per_s: median(all().map(|costs| costs.acquisitions_per_s))?,
        recovery_ms: all().filter_map(|costs| costs.recovery_ms).max_by(f64::total_cmp),
    })
}

fn loss_notice(judgements: &[&Judgement]) -> Option<CellLossNotice> {
    let of = |name: &'static str| {
        let metrics = judgements.iter().flat_map(|judgement| &judgement.metrics);
        metrics.filter(move |metric| metric.name == name).map(|metric| metric.value)
    };
    let never_percent = median(of(LOSS_NOTICE_NEVER))?;
    Some(CellLossNotice { longest_ms: of(LOSS_NOTICE_LONGEST).max_by(f64::total_cmp), never_percent })
}

fn without_leader(judgements: &[&Judgement]) -> Option<CellWithoutLeader> {
    let all = decided::<LeadershipFigures>(judgements);
    Some(CellWithoutLeader {
        at_least_ms: all.iter().map(|figures| figures.without_leader_ms).max()?,
        at_most_ms: all.iter().map(|figures| figures.without_leader_at_most_ms).max()?,
    })
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[last.div_ceil(2)]))
}

fn versions(named: &[String]) -> Vec<String> {
    let versions = named.iter().map(|server| server.split(" on ").next().unwrap_or(server).to_owned());
    versions.collect::<BTreeSet<String>>().into_iter().collect()
}
