//! Runs that exist: what came of each, read from its folder alone, without its history.

use crate::threads::prepare_threads;
use fencepost_checker::{Costs, Coverage, Figures, Harm, Metric, NearMiss, Outcome, Unjudged};
use fencepost_history::find_history;
use fencepost_history::run::{RunFile, RunHead, read_regular, write_inside};
use rayon::prelude::*;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run's folder, and the parts of its files that were read: all that reports need, unless said otherwise.
#[derive(Clone, Debug)]
pub struct Run<F = RunFile, J = Judgement> {
    pub name: String,
    pub path: PathBuf,
    pub state: State<F, J>,
}

/// How far a run's folder can be understood.
#[derive(Clone, Debug)]
pub enum State<F = RunFile, J = Judgement> {
    Judged(Box<F>, Arc<J>),
    /// It was not judged, or by an older version: why, in a sentence.
    NotJudged(Box<F>, String),
    /// Its settings cannot be read: why, in a sentence.
    Damaged(String),
}

/// `verdict.json`, without the findings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judgement {
    pub outcome: Outcome,
    /// What the violations mean, the worst first. Empty in verdicts of before that was said.
    #[serde(default)]
    pub harms: Vec<Harm>,
    pub verdicts: Vec<PropertyVerdict>,
    #[serde(default)]
    pub metrics: Vec<Metric>,
    #[serde(default)]
    pub not_judged: Vec<Unjudged>,
    pub costs: Costs,
    /// None in verdicts of before situations were counted.
    #[serde(default)]
    pub coverage: Option<Coverage>,
    #[serde(default)]
    pub nearest_miss: Option<NearMiss>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PropertyVerdict {
    pub checker: String,
    pub outcome: Outcome,
    /// Whether the lock claims the property.
    #[serde(default = "yes")]
    pub claimed: bool,
    /// What its findings mean, the worst first. Empty in verdicts of before that was said.
    #[serde(default)]
    pub harms: Vec<Harm>,
    pub summary: String,
    /// Counts, by name.
    #[serde(default)]
    pub stats: Map<String, Value>,
}

fn yes() -> bool {
    true
}

pub type ListedRun = Run<RunHead, VerdictHead>;

/// The part of `verdict.json` that a list of runs shows.
#[derive(Clone, Debug, Deserialize)]
pub struct VerdictHead {
    pub outcome: Outcome,
    #[serde(default)]
    pub harms: Vec<Harm>,
    pub verdicts: Vec<PropertyHead>,
    /// As in the whole: without it the verdict is of another version.
    #[serde(rename = "costs")]
    _costs: IgnoredAny,
}

/// The verdict of one checker, as a list of runs shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct PropertyHead {
    pub outcome: Outcome,
    pub summary: String,
}

impl<F, J> Run<F, J> {
    /// What was asked for, where that can be read.
    pub fn file(&self) -> Option<&F> {
        match &self.state {
            State::Judged(file, _) | State::NotJudged(file, _) => Some(file),
            State::Damaged(_) => None,
        }
    }

    /// What came of it, if it was judged.
    pub fn judgement(&self) -> Option<&Arc<J>> {
        match &self.state {
            State::Judged(_, judgement) => Some(judgement),
            State::NotJudged(..) | State::Damaged(_) => None,
        }
    }

    /// Why there is no judgement.
    pub fn problem(&self) -> Option<&str> {
        match &self.state {
            State::Judged(..) => None,
            State::NotJudged(_, why) | State::Damaged(why) => Some(why),
        }
    }
}

impl Judgement {
    pub fn of_checker(&self, name: &str) -> Option<&PropertyVerdict> {
        self.verdicts.iter().find(|verdict| verdict.checker == name)
    }

    /// What a checker counted; none where it did not judge the run.
    pub fn figures<F: Figures>(&self) -> Option<F> {
        self.of_checker(F::CHECKER).map(|property| F::read(&property.stats))
    }
}

/// Reads a run's folder, half-written and damaged ones included. None: it is not the folder of a run.
pub fn read(path: &Path) -> Option<Run> {
    read_parts(path)
}

/// Reads of a run's folder what a list shows, in a fraction of the time of [`read`].
pub fn read_listed(path: &Path) -> Option<ListedRun> {
    read_parts(path)
}

fn read_parts<F: DeserializeOwned, J: DeserializeOwned>(path: &Path) -> Option<Run<F, J>> {
    let name = path.file_name()?.to_str()?.to_owned();
    let state = match read_regular(&path.join("run.toml")) {
        Ok(text) => match toml::from_str(&text) {
            Ok(file) => judged(path, Box::new(file)),
            Err(error) => State::Damaged(format!("its run.toml cannot be read: {}", error.message())),
        },
        // A file or a pipe that lies among the runs.
        Err(error) if error.kind() == ErrorKind::NotADirectory => return None,
        Err(error) if error.kind() == ErrorKind::NotFound => match begun(path) {
            true => State::Damaged("it has no run.toml: it ended before it began, or lost it".to_owned()),
            false => return None,
        },
        Err(error) => State::Damaged(format!("its run.toml cannot be read: {error}")),
    };
    Some(Run { name, path: path.to_owned(), state })
}

/// All runs in a folder of runs, newest first. Errors: the folder itself cannot be read.
pub fn all(results: &Path) -> std::io::Result<Vec<Run>> {
    prepare_threads();
    let mut runs: Vec<Run> = folders(results)?.par_iter().filter_map(|path| read(path)).collect();
    let started = |run: &Run| run.file().map_or(0, |file| file.started);
    runs.sort_by(|one, other| started(other).cmp(&started(one)).then_with(|| one.name.cmp(&other.name)));
    Ok(runs)
}

/// The folders in a folder of runs, which may be runs; not the link `latest`.
pub fn folders(results: &Path) -> std::io::Result<Vec<PathBuf>> {
    Ok(folder_entries(results)?.iter().map(DirEntry::path).collect())
}

/// As [`folders`]; an entry gives its metadata sooner than a path does.
pub fn folder_entries(results: &Path) -> std::io::Result<Vec<DirEntry>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(results)? {
        let entry = entry?;
        // Under a hidden name a folder is on its way, here or out.
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.file_type()?.is_dir() {
            folders.push(entry);
        }
    }
    Ok(folders)
}

fn begun(path: &Path) -> bool {
    let has = |part: &str| path.join(part).exists();
    find_history(&path.join("history.jsonl")).is_some() || has("verdict.json") || has("logs")
}

const FAILURE: &str = "failed.txt";

/// Keeps the sentence with which a run failed in its folder, if possible; it is on the terminal, too.
pub fn keep_failure(folder: &Path, sentence: &str) {
    let _ = write_inside(folder, FAILURE, sentence.as_bytes());
}

fn judged<F, J: DeserializeOwned>(path: &Path, file: Box<F>) -> State<F, J> {
    let text = match read_regular(&path.join("verdict.json")) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let why = match read_regular(&path.join(FAILURE)) {
                Ok(sentence) => format!("it failed: {}", sentence.trim_end()),
                Err(_) => {
                    "it has no verdict.json: it is still going, or ended before it was judged".to_owned()
                }
            };
            return State::NotJudged(file, why);
        }
        Err(error) => return State::NotJudged(file, format!("its verdict.json cannot be read: {error}")),
    };
    match serde_json::from_str(&text) {
        Ok(judgement) => State::Judged(file, Arc::new(judgement)),
        Err(error) => {
            let path = path.display();
            let why = format!(
                "its verdict.json is damaged or of another version ({error}); `fencepost analyze {path}` judges it again"
            );
            State::NotJudged(file, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::run_file;
    use fencepost_checker::{ExclusionFigures, RunVerdict, Verdict};

    const COSTS: &str = r#"{"acquisitions":9,"acquisitions_per_s":3.0,"acquire_median_ms":1.5,"acquire_p99_ms":4.0,"recovery_ms":null}"#;

    fn folder(results: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let path = results.join(name);
        fs::create_dir(&path).unwrap();
        for (name, text) in files {
            fs::write(path.join(name), text).unwrap();
        }
        path
    }

    fn settings(started: u64) -> String {
        let mut file = run_file();
        file.started = started;
        toml::to_string(&file).unwrap()
    }

    #[test]
    fn reads_what_came_of_a_run_without_its_history() {
        let results = tempfile::tempdir().unwrap();
        let exclusion = Verdict::new("exclusion", Outcome::Violation, "broken")
            .with_figures(&ExclusionFigures { holds: 12, ..ExclusionFigures::default() });
        let verdict = RunVerdict {
            costs: Some(serde_json::from_str(COSTS).unwrap()),
            ..RunVerdict::of(vec![exclusion])
        };
        let verdict = serde_json::to_string(&verdict).unwrap();
        let path = folder(results.path(), "a", &[("run.toml", &settings(5)), ("verdict.json", &verdict)]);
        let run = read(&path).unwrap();
        let judgement = run.judgement().unwrap();
        assert_eq!((run.name.as_str(), judgement.outcome), ("a", Outcome::Violation));
        assert_eq!(
            (judgement.figures::<ExclusionFigures>().unwrap().holds, judgement.costs.acquisitions),
            (12, 9)
        );
        assert_eq!(run.file().unwrap().spec.lock, "redlock");
        let listed = read_listed(&path).unwrap();
        let head = listed.judgement().unwrap();
        assert_eq!((head.outcome, head.verdicts[0].summary.as_str()), (Outcome::Violation, "broken"));
        assert_eq!(listed.file().unwrap().started, 5);
    }

    #[test]
    fn a_run_that_failed_says_why() {
        let results = tempfile::tempdir().unwrap();
        let path = folder(results.path(), "a", &[("run.toml", &settings(5)), ("history.jsonl", "")]);
        keep_failure(&path, "no server came up");
        assert_eq!(read_listed(&path).unwrap().problem(), Some("it failed: no server came up"));
    }

    #[test]
    fn half_written_old_and_damaged_folders_are_entries_that_say_so() {
        let results = tempfile::tempdir().unwrap();
        let put = |name: &str, files: &[(&str, &str)]| folder(results.path(), name, files);
        let settings = settings(7);
        put("going", &[("run.toml", &settings), ("history.jsonl", "")]);
        put("old", &[("run.toml", &settings), ("verdict.json", r#"{"outcome":"valid","verdicts":[]}"#)]);
        put("cut", &[("run.toml", &settings), ("verdict.json", r#"{"outcome":"val"#)]);
        put("damaged", &[("run.toml", "lock = ")]);
        put("older", &[("run.toml", "fencepost = \"0.0.1\"")]);
        put("headless", &[("history.jsonl", "")]);
        put("no-run", &[("compare.json", "{}")]);
        std::os::unix::fs::symlink("going", results.path().join("latest")).unwrap();
        let runs = all(results.path()).unwrap();
        for run in &runs {
            let listed = read_listed(&run.path).unwrap();
            let state = (listed.file().is_some(), listed.problem().is_some());
            assert_eq!(state, (run.file().is_some(), run.problem().is_some()), "{}", run.name);
        }
        let described: Vec<String> = runs
            .iter()
            .map(|run| format!("{}: {}", run.name, run.problem().unwrap_or("fine")))
            .map(|line| line.replace(results.path().to_str().unwrap(), "results"))
            .collect();
        insta::assert_snapshot!(described.join("\n"));
    }

    #[test]
    fn the_newest_comes_first() {
        let results = tempfile::tempdir().unwrap();
        for (name, started) in [("one", 100), ("two", 300), ("three", 200)] {
            folder(results.path(), name, &[("run.toml", &settings(started))]);
        }
        let names: Vec<String> = all(results.path()).unwrap().into_iter().map(|run| run.name).collect();
        assert_eq!(names, ["two", "three", "one"]);
        assert!(all(Path::new("/nowhere")).is_err());
    }
}
