use super::request::HuntRequest;
use crate::schedule::Schedule;
use crate::search::{ScheduleArchive, SituationName, SituationRecord, Use};
use anyhow::{Context, Result, anyhow};
use fencepost_engine::{BadUsage, RunOptions, refuse};
use fencepost_history::run::{read_regular, timestamp, write_inside};
use fencepost_history::{Seed, Shard};
use fencepost_nemesis::Plan;
use fencepost_report::hunt::{HUNT_JSON, HuntFile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// `hunt.json`: what a report shows, and what it takes to go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HuntState {
    #[serde(flatten)]
    pub file: HuntFile,
    pub request: HuntRequest,
    pub next: u64,
    pub cells: BTreeMap<SituationName, SituationRecord>,
}

/// A kept schedule: `corpus/NUMBER.toml`.
#[derive(Serialize, Deserialize)]
struct CorpusFile {
    about: String,
    used: Use,
    options: RunOptions,
    plan: Plan,
}

/// The folder of the runs that showed findings first.
pub(super) const FOUND: &str = "found";

/// The folder of a hunt: `hunt.json`, `corpus/`, `findings/`, reports, and `runs/`; locked while it exists.
pub struct HuntFolder {
    pub path: PathBuf,
    _running: File,
}

impl HuntFolder {
    /// The place of a part of a hunt in `results`, whenever it began: `hunt-<lock>-<seed>-<K>-of-<N>`.
    pub fn of_part(results: &Path, lock: &str, seed: Seed, shard: Shard) -> PathBuf {
        results.join(format!("hunt-{}-{seed}-{}", short(lock), shard.in_file_names()))
    }

    /// Makes the folder of a new hunt in `results`, `hunt-<lock>-<time>-<seed>`; an error where it cannot.
    pub fn create(results: &Path, lock: &str, started: u64, seed: Seed) -> Result<HuntFolder> {
        HuntFolder::create_at(results.join(format!("hunt-{}-{}-{seed}", short(lock), timestamp(started))))
    }

    /// Makes the folder of a new hunt. An error where it cannot be written, or a hunt goes on there.
    pub fn create_at(path: PathBuf) -> Result<HuntFolder> {
        for part in ["corpus", "findings", "runs"] {
            let part = path.join(part);
            fs::create_dir_all(&part)
                .with_context(|| format!("cannot make the folder {}", part.display()))?;
        }
        HuntFolder::lock(path)
    }

    /// Opens the folder of a hunt that ended early, with its state and schedules. Errors: none, or in use.
    pub fn resume(path: &Path) -> Result<(HuntFolder, HuntState, ScheduleArchive)> {
        let state = HuntFolder::state(path)?;
        let folder = HuntFolder::lock(path.to_owned())?;
        fs::create_dir_all(path.join("runs")).context("cannot make the folder runs")?;
        let archive = HuntFolder::archive(path, &state)?;
        Ok((folder, state, archive))
    }

    /// What a hunt had kept, whether it goes on or not, and its lock. The error is one sentence.
    pub fn kept(path: &Path) -> Result<(String, ScheduleArchive)> {
        let state = HuntFolder::state(path)?;
        let archive = HuntFolder::archive(path, &state)?;
        Ok((state.request.options.lock, archive))
    }

    /// Keeps the schedules with which a hunt begins. An error where a file cannot be written.
    pub fn keep_all(&self, archive: &ScheduleArchive) -> Result<()> {
        let mut kept = archive.kept.iter();
        kept.try_for_each(|(number, (schedule, _))| self.keep(*number, schedule, "from an earlier hunt"))
    }

    fn state(path: &Path) -> Result<HuntState> {
        let json = path.join(HUNT_JSON);
        let text = read_regular(&json).map_err(|error| {
            BadUsage::new(format!(
                "{} is not the folder of a hunt: cannot read {HUNT_JSON}: {error}; such folders are named results/hunt-…",
                path.display()
            ))
        })?;
        let state = serde_json::from_str(&text).map_err(|error| {
            BadUsage::new(format!(
                "{} is damaged or of another version ({error}); begin a new hunt",
                json.display()
            ))
        })?;
        Ok(state)
    }

    fn lock(path: PathBuf) -> Result<HuntFolder> {
        let running = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        match running.try_lock() {
            Ok(()) => Ok(HuntFolder { path, _running: running }),
            Err(fs::TryLockError::WouldBlock) => {
                refuse!("the hunt in {} still goes on; end it first", path.display())
            }
            Err(fs::TryLockError::Error(error)) => Err(anyhow!("cannot lock {}: {error}", path.display())),
        }
    }

    /// The runs of schedules while they are looked at.
    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    pub fn findings(&self) -> PathBuf {
        self.path.join("findings")
    }

    /// Where the run that showed a finding first lies until a smaller one takes its place.
    pub fn found(&self, name: &str) -> PathBuf {
        self.path.join(FOUND).join(name)
    }

    /// Removes the runs that no finding names any more.
    pub fn remove_found_but(&self, file: &HuntFile) {
        let Ok(folders) = fs::read_dir(self.path.join(FOUND)) else { return };
        for folder in folders.flatten() {
            let run = format!("{FOUND}/{}", folder.file_name().to_string_lossy());
            if file.findings.iter().all(|finding| finding.run.as_deref() != Some(&run)) {
                let _ = fs::remove_dir_all(folder.path());
            }
        }
    }

    /// Writes the state whole or not at all. An error where it cannot.
    pub fn write(&self, state: &HuntState) -> Result<()> {
        let text = serde_json::to_string_pretty(state)? + "\n";
        Ok(write_inside(&self.path, HUNT_JSON, text.as_bytes())?)
    }

    /// Writes page and Markdown. An error where it cannot.
    pub fn write_report(&self, file: &HuntFile) -> Result<()> {
        let page = fencepost_report::hunt::html(file, &self.path);
        write_inside(&self.path, "hunt.html", page.as_bytes())?;
        Ok(write_inside(&self.path, "hunt.md", fencepost_report::hunt::markdown(file).as_bytes())?)
    }

    /// Keeps a schedule. An error where its file cannot be written.
    pub fn keep(&self, number: u64, schedule: &Schedule, about: &str) -> Result<()> {
        let Schedule { options, plan, .. } = schedule.clone();
        let file = CorpusFile { about: about.to_owned(), used: Use::default(), options, plan };
        Ok(write_inside(&self.path, &corpus_file(number), toml::to_string(&file)?.as_bytes())?)
    }

    /// Removes schedules that no situation keeps any more. One that cannot be removed costs only space.
    pub fn drop_kept(&self, numbers: &[u64]) {
        for number in numbers {
            let _ = fs::remove_file(self.path.join(corpus_file(*number)));
        }
    }

    /// The kept schedules of a hunt that ended early; a missing schedule's situation counts as covered.
    fn archive(folder: &Path, state: &HuntState) -> Result<ScheduleArchive> {
        let mut archive = ScheduleArchive { cells: state.cells.clone(), ..ScheduleArchive::default() };
        for number in state.cells.values().map(|cell| cell.elite) {
            let path = folder.join(corpus_file(number));
            let Ok(text) = read_regular(&path) else { continue };
            let CorpusFile { used, options, plan, .. } = toml::from_str(&text).map_err(|error| {
                BadUsage::new(format!("{} is damaged: {}", path.display(), error.message()))
            })?;
            archive.kept.insert(number, (Schedule::new(options, plan), used));
        }
        Ok(archive)
    }

    /// Removes the runs of schedules: those that are worth keeping lie elsewhere by now.
    pub fn remove_runs(&self) {
        let _ = fs::remove_dir_all(self.runs());
    }
}

fn short(lock: &str) -> String {
    Path::new(lock).file_name().map_or("lock".into(), |name| name.to_string_lossy().into_owned())
}

fn corpus_file(number: u64) -> String {
    format!("corpus/{number}.toml")
}
