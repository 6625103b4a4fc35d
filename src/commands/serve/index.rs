//! What runs there are. Looked at again with each request, and read again only where something changed.

use fencepost_checker::{Harm, Outcome};
use fencepost_history::run::{SettingsHead, is_running};
use fencepost_report::prepare_threads;
use fencepost_report::runs::{self, ListedRun, Run, State};
use parking_lot::Mutex;
use rayon::prelude::*;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A folder that changed so short a time ago is read again the next time, too: file systems round times.
const FRESH: Duration = Duration::from_secs(2);

pub struct Index {
    pub results: PathBuf,
    known: Mutex<KnownEntries>,
}

#[derive(Default)]
struct KnownEntries {
    entries: HashMap<String, IndexEntry>,
    contents: Arc<ResultsContents>,
}

/// What a results folder holds, newest first.
#[derive(Default)]
pub struct ResultsContents {
    pub runs: Vec<Arc<Row>>,
    pub campaigns: Vec<ListedCampaign>,
}

/// A hunt, a comparison, or what many runs were merged into: a folder with a page of its own.
#[derive(Clone, Debug)]
pub struct ListedCampaign {
    pub name: String,
    pub kind: &'static str,
    pub page: &'static str,
    changed: SystemTime,
}

const CAMPAIGN_PAGES: [(&str, &str); 2] = [("hunt.html", "hunt"), ("compare.html", "comparison")];

impl ListedCampaign {
    fn of(folder: &Path, name: &str, changed: SystemTime) -> Option<ListedCampaign> {
        let (page, kind) = CAMPAIGN_PAGES.into_iter().find(|(page, _)| folder.join(page).is_file())?;
        Some(ListedCampaign { name: name.to_owned(), kind, page, changed })
    }
}

struct IndexEntry {
    changed: SystemTime,
    row: Option<Arc<Row>>,
    campaign: Option<ListedCampaign>,
}

#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub started: u64,
    pub lock: String,
    pub workload: String,
    pub nemesis: String,
    pub guard: String,
    pub status: RunStatus,
    /// What a violation means at worst.
    pub harm: Option<Harm>,
    pub said: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    Judged(Outcome),
    /// It goes on, or is being judged.
    Running,
    /// It ended, and there is no verdict that can be read.
    NotJudged,
    /// What it was a run of cannot be read.
    Damaged,
}

impl RunStatus {
    pub const WORDS: [&str; 7] =
        ["violation", "valid", "unknown", "vacuous", "running", "not judged", "damaged"];

    pub fn word(self) -> &'static str {
        match self {
            RunStatus::Judged(outcome) => outcome.word(),
            RunStatus::Running => "running",
            RunStatus::NotJudged => "not judged",
            RunStatus::Damaged => "damaged",
        }
    }
}

/// `outcome` is that of what was read of the judgement.
pub fn status<F, J>(run: &Run<F, J>, outcome: fn(&J) -> Outcome) -> RunStatus {
    match &run.state {
        State::Judged(_, judgement) => RunStatus::Judged(outcome(judgement)),
        State::NotJudged(..) | State::Damaged(_) if is_running(&run.path) => RunStatus::Running,
        State::NotJudged(..) => RunStatus::NotJudged,
        State::Damaged(_) => RunStatus::Damaged,
    }
}

/// The longest text of a row, in characters: a damaged folder may hold texts of any length.
const TEXT_MAX: usize = 1000;

fn short(text: String) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

impl Row {
    fn new(run: &ListedRun) -> Row {
        let status = status(run, |verdict| verdict.outcome);
        let said = match (&run.state, status) {
            (_, RunStatus::Running) => String::new(),
            (State::Judged(_, judgement), _) => {
                let worst = judgement.verdicts.iter().find(|property| property.outcome == judgement.outcome);
                worst.map(|property| property.summary.clone()).unwrap_or_default()
            }
            (State::NotJudged(_, why) | State::Damaged(why), _) => why.clone(),
        };
        let file = run.file();
        let of_spec = |text: fn(&SettingsHead) -> String| file.map(|file| short(text(&file.spec)));
        Row {
            name: run.name.clone(),
            started: file.map_or(0, |file| file.started),
            lock: of_spec(|spec| spec.lock.clone()).unwrap_or_default(),
            workload: of_spec(|spec| spec.workload.clone()).unwrap_or_default(),
            nemesis: of_spec(|spec| spec.nemesis_name()).unwrap_or_default(),
            guard: of_spec(|spec| spec.guard.clone()).unwrap_or_default(),
            status,
            harm: run.judgement().and_then(|judgement| judgement.harms.first().copied()),
            said: short(said),
        }
    }

    fn contains(&self, word: &str) -> bool {
        let texts = [&self.name, &self.lock, &self.workload, &self.nemesis, &self.guard, &self.said];
        let words = [self.status.word(), self.harm.map_or("", Harm::in_words)];
        texts.iter().any(|text| text.to_lowercase().contains(word))
            || words.iter().any(|text| text.contains(word))
    }
}

impl Index {
    pub fn new(results: PathBuf) -> Index {
        Index { results, known: Mutex::default() }
    }

    /// All runs and campaigns as they are now. Errors: the results folder cannot be read.
    pub fn look(&self) -> std::io::Result<Arc<ResultsContents>> {
        prepare_threads();
        let folders = folders(&self.results)?;
        let mut known = self.known.lock();
        let now = SystemTime::now();
        let is_current =
            |name: &str, changed| known.entries.get(name).is_some_and(|entry| entry.is_current(changed, now));
        let read: Vec<(String, IndexEntry)> = folders
            .par_iter()
            .filter(|(name, changed)| !is_current(name, *changed))
            .map(|(name, changed)| {
                let folder = self.results.join(name);
                let row = runs::read_listed(&folder).map(|run| Arc::new(Row::new(&run)));
                let campaign = ListedCampaign::of(&folder, name, *changed);
                (name.clone(), IndexEntry { changed: *changed, row, campaign })
            })
            .collect();
        let same = read.is_empty() && known.entries.len() == folders.len();
        if !same {
            known.entries.extend(read);
            let there: HashSet<&str> = folders.iter().map(|(name, _)| name.as_str()).collect();
            known.entries.retain(|name, _| there.contains(name.as_str()));
            let mut runs: Vec<Arc<Row>> =
                known.entries.values().filter_map(|entry| entry.row.clone()).collect();
            runs.par_sort_by(|one, other| {
                other.started.cmp(&one.started).then_with(|| one.name.cmp(&other.name))
            });
            let mut campaigns: Vec<ListedCampaign> =
                known.entries.values().filter_map(|entry| entry.campaign.clone()).collect();
            campaigns.sort_by(|one, other| {
                other.changed.cmp(&one.changed).then_with(|| one.name.cmp(&other.name))
            });
            known.contents = Arc::new(ResultsContents { runs, campaigns });
        }
        Ok(known.contents.clone())
    }
}

impl IndexEntry {
    /// Whether the folder is still what was read. A run that goes on ends without a sign.
    fn is_current(&self, changed: SystemTime, now: SystemTime) -> bool {
        let fresh = now.duration_since(changed).is_ok_and(|age| age < FRESH);
        let running = self.row.as_ref().is_some_and(|row| row.status == RunStatus::Running);
        self.changed == changed && !fresh && !running
    }
}

/// Folders, and when a file was last put into each or renamed there: so every file of a run is written.
fn folders(results: &Path) -> std::io::Result<Vec<(String, SystemTime)>> {
    let changed = |folder: DirEntry| {
        let name = folder.file_name().into_string().ok()?;
        Some((name, folder.metadata().and_then(|folder| folder.modified()).ok()?))
    };
    Ok(runs::folder_entries(results)?.into_par_iter().filter_map(changed).collect())
}

/// Which runs are listed, and in which order. Empty fields select all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Filter {
    pub lock: String,
    pub workload: String,
    pub nemesis: String,
    pub verdict: String,
    /// Words that stand somewhere, in any order.
    pub text: String,
    pub sort: String,
    pub page: usize,
}

/// By what the list can be sorted; with a `-` before it, the other way round.
pub const ORDERS: [&str; 6] = ["started", "lock", "workload", "nemesis", "guard", "verdict"];

const USUAL_ORDER: &str = "-started";

impl Filter {
    /// The order that is asked for, if it exists; else the usual one.
    pub fn order(&self) -> &str {
        let known = ORDERS.contains(&self.sort.trim_start_matches('-'));
        if known { &self.sort } else { USUAL_ORDER }
    }

    /// Those of these runs, which have the newest first, that are wanted, in order.
    pub fn of<'a>(&self, rows: &'a [Arc<Row>]) -> Vec<&'a Row> {
        let text = self.text.to_lowercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        let is = |filter: &str, value: &str| filter.is_empty() || filter == value;
        let wanted = |row: &&Row| {
            is(&self.lock, &row.lock)
                && is(&self.workload, &row.workload)
                && is(&self.nemesis, &row.nemesis)
                && is(&self.verdict, row.status.word())
                && words.iter().all(|word| row.contains(word))
        };
        let mut rows: Vec<&Row> = rows.iter().map(|row| &**row).filter(wanted).collect();
        // Equal ones stay with the newest first.
        let order = self.order();
        let by = order.trim_start_matches('-');
        match order.starts_with('-') {
            _ if order == USUAL_ORDER => {}
            true => rows.sort_by(|one, other| compare(by, other, one)),
            false => rows.sort_by(|one, other| compare(by, one, other)),
        }
        rows
    }
}

fn compare(by: &str, one: &Row, other: &Row) -> std::cmp::Ordering {
    match by {
        "lock" => one.lock.cmp(&other.lock),
        "workload" => one.workload.cmp(&other.workload),
        "nemesis" => one.nemesis.cmp(&other.nemesis),
        "guard" => one.guard.cmp(&other.guard),
        "verdict" => one.status.word().cmp(other.status.word()),
        _ => one.started.cmp(&other.started),
    }
}

/// What a column holds, for choosing from.
pub fn values<'a>(rows: &'a [Arc<Row>], of: impl Fn(&'a Row) -> &'a str) -> BTreeSet<&'a str> {
    let distinct: HashSet<&str> = rows.iter().map(|row| of(row)).collect();
    distinct.into_iter().filter(|value| !value.is_empty()).collect()
}
