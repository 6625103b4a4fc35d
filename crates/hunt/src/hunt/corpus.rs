use super::folder::HuntFolder;
use super::request::HuntRequest;
use crate::schedule::Schedule;
use crate::search::{ScheduleArchive, Use};
use anyhow::Result;
use fencepost_engine::{BadUsage, RunOptions, refuse};
use fencepost_report::hunt::HUNT_JSON;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Kept schedules of earlier hunts are numbered from here on: no hunt plays so many of its own.
pub(super) const EARLIER: u64 = 1 << 40;

/// How deep hunts may lie in the folder: `whole/parts/2`.
const DEPTH: usize = 3;

/// What the hunts in this folder kept (`--corpus`), as far as it fits. Errors: no such hunt, or unreadable.
pub fn kept_in(folder: &Path, request: &HuntRequest) -> Result<ScheduleArchive> {
    let named = request.corpus.as_deref().unwrap_or(folder);
    let mut hunts = Vec::new();
    find(folder, DEPTH, &mut hunts).map_err(BadUsage::cannot("read the corpus", named))?;
    let named = named.display();
    if hunts.is_empty() {
        refuse!(
            "there is no hunt in the corpus {named}; name the folder of a hunt, of several, or of their merge"
        );
    }
    let (mut all, mut others) = (ScheduleArchive::default(), Vec::new());
    for hunt in &hunts {
        let (lock, archive) = HuntFolder::kept(hunt)?;
        match lock == request.options.lock {
            true => take(&mut all, archive, request),
            false => others.push(lock),
        }
    }
    match (all.kept.is_empty(), others.first()) {
        (true, Some(other)) => {
            refuse!("the corpus {named} is of hunts on {other}, not on {}", request.options.lock)
        }
        _ => Ok(all),
    }
}

fn find(folder: &Path, depth: usize, hunts: &mut Vec<PathBuf>) -> std::io::Result<()> {
    // A merge has a `hunt.json` of its own, and the hunts that it was made of beneath.
    if folder.join("corpus").is_dir() && folder.join(HUNT_JSON).is_file() {
        hunts.push(folder.to_owned());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let mut inner = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            inner.push(entry.path());
        }
    }
    inner.sort();
    inner.iter().try_for_each(|folder| find(folder, depth - 1, hunts))
}

/// Adds what fits: of each situation the schedule that came nearest.
fn take(all: &mut ScheduleArchive, archive: ScheduleArchive, request: &HuntRequest) {
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    for (name, cell) in archive.cells {
        let Some((schedule, _)) = archive.kept.get(&cell.elite) else { continue };
        if !fits(schedule, request) {
            continue;
        }
        let next = EARLIER + (all.kept.len() + numbers.len()) as u64;
        let number = *numbers.entry(cell.elite).or_insert(next);
        let known = all.cells.entry(name).or_default();
        let is_first = known.covered == 0;
        known.covered += cell.covered;
        let distance = |ms: Option<f64>| ms.unwrap_or(f64::INFINITY);
        if is_first || distance(cell.nearest_ms) < distance(known.nearest_ms) {
            (known.elite, known.nearest_ms) = (number, cell.nearest_ms);
        }
    }
    for (before, number) in numbers {
        if let Some((schedule, _)) = archive.kept.get(&before) {
            all.kept.insert(number, (schedule.clone(), Use::default()));
        }
    }
}

/// Whether a schedule could be one of this hunt: its nemeses, and all options that the hunt does not draw.
fn fits(schedule: &Schedule, request: &HuntRequest) -> bool {
    let (base, drawn, own) = (&request.options, request.drawn, &schedule.options);
    let options = RunOptions {
        seed: base.seed,
        clients: if drawn.clients { base.clients } else { own.clients },
        concurrency: if drawn.concurrency { base.concurrency } else { own.concurrency },
        keys: if drawn.keys { base.keys } else { own.keys },
        time_limit: if drawn.time_limit { base.time_limit } else { own.time_limit },
        hold: if drawn.hold { base.hold } else { own.hold },
        careful: if drawn.careful { base.careful } else { own.careful },
        driver: base.driver.clone(),
        pause_at: base.pause_at.clone(),
        ..own.clone()
    };
    options == *base && schedule.plan.faults.iter().all(|fault| request.nemeses.contains(&fault.fault))
}
