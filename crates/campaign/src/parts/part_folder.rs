//! The folder of a part or of a merge, as a merge reads it.

use super::merged_parts::MergedParts;
use super::part_file::{CampaignKind, MERGE_JSON, PART_JSON, PartFile};
use super::records::{RECORDS, RecordHead, RunRecord, line, line_of, read_records, record_head};

use anyhow::{Context, Result};
use fencepost_engine::BadUsage;
use fencepost_history::Shard;
use fencepost_history::run::{RunError, is_running, open_regular, read_regular};
use fencepost_report::hunt::{HUNT_JSON, HuntFile};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub struct PartFolder {
    pub path: PathBuf,
    /// Whether the part is still at work.
    pub is_running: bool,
    pub merged: MergedParts,
    records: PartLines,
}

enum PartLines {
    File(File),
    /// The line that was made from what a hunt keeps.
    Hunt(Vec<u8>),
    Nowhere,
}

fn file_of(folder: &Path) -> Option<PathBuf> {
    [PART_JSON, MERGE_JSON].map(|name| folder.join(name)).into_iter().find(|file| file.is_file())
}

/// The folders of parts that a path names: itself, or those in it (results, or folders of results).
pub fn find_parts(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    const DEPTH: usize = 3;
    if file_of(path).is_some() {
        return Ok(vec![path.to_owned()]);
    }
    let mut level = vec![path.to_owned()];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for folder in &level {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    next.push(entry.path());
                }
            }
        }
        next.sort();
        let found: Vec<PathBuf> = next.iter().filter(|folder| file_of(folder).is_some()).cloned().collect();
        if !found.is_empty() {
            return Ok(found);
        }
        level = next;
    }
    Ok(Vec::new())
}

impl PartFolder {
    /// Reads a part. `source`: its place among those merged. Errors: a file cannot be read, or is damaged.
    pub fn read(path: &Path, source: usize) -> Result<PartFolder> {
        // Asked first: what is done afterwards is seen or not, but never taken for finished.
        let is_running = is_running(path);
        let file =
            file_of(path).with_context(|| format!("{} is not the folder of a part", path.display()))?;
        let text = read_regular(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let damaged = |reason: String| RunError::Malformed { path: file.clone(), reason };
        let mut part: PartFile = serde_json::from_str(&text)
            .map_err(|error| damaged(format!("it is damaged, or of another version ({error})")))?;
        for number in part.parts.keys() {
            Shard::new(*number, part.of.get()).map_err(|error| damaged(format!("it is damaged: {error}")))?;
        }
        for state in part.parts.values_mut() {
            state.runs_in = state.runs_in.iter().map(|place| path.join(place)).collect();
        }
        let (records_path, mut heads) = (path.join(RECORDS), BTreeMap::new());
        let records = match open_regular(&records_path) {
            Err(error) if error.kind() == ErrorKind::NotFound => PartLines::Nowhere,
            opened => {
                let records = opened.with_context(|| format!("cannot read {}", records_path.display()))?;
                heads = read_records(&records, &records_path, source)?;
                PartLines::File(records)
            }
        };
        let records = match (records, part.kind) {
            (PartLines::Nowhere, CampaignKind::Hunt) => {
                let hunt = hunt_line(path, &part)?;
                heads.extend(hunt.iter().map(|line| head(line, source)).collect::<Result<Vec<_>>>()?);
                hunt.map_or(PartLines::Nowhere, PartLines::Hunt)
            }
            (records, _) => records,
        };
        let assigned: BTreeSet<u64> =
            part.parts.values().flat_map(|state| &state.assigned).copied().collect();
        heads.retain(|run, _| assigned.contains(run));
        let found_in = part.parts.keys().map(|number| (*number, BTreeSet::from([path.to_owned()]))).collect();
        let merged = MergedParts { file: part, records: heads, found_in };
        Ok(PartFolder { path: path.to_owned(), is_running, merged, records })
    }

    /// The records of an earlier sitting in a part's folder. Errors: another command's, or still at work.
    pub fn records_of_same(folder: &Path, file: &PartFile) -> Result<Vec<RunRecord>> {
        let Ok(earlier) = PartFolder::read(folder, 0) else { return Ok(Vec::new()) };
        let refused = |why: &str| BadUsage::new(format!("{} {why}; use other --results", folder.display()));
        if earlier.is_running {
            return Err(refused("is a part that is still at work").into());
        }
        let said = |file: &PartFile| (file.campaign.clone(), file.assignment.clone(), file.fencepost.clone());
        if said(&earlier.merged.file) != said(file) {
            return Err(refused("is a part of another command").into());
        }
        Ok(earlier.records().collect())
    }

    /// Its records. What cannot be read any more is not there.
    pub fn records(&self) -> impl Iterator<Item = RunRecord> {
        self.merged.records.values().filter_map(|head| serde_json::from_slice(&self.line(head).ok()?).ok())
    }

    pub fn line(&self, head: &RecordHead) -> Result<Vec<u8>> {
        let path = self.path.join(RECORDS);
        match &self.records {
            PartLines::File(file) => {
                line_of(file, head).with_context(|| format!("cannot read {}", path.display()))
            }
            PartLines::Hunt(line) => Ok(line.clone()),
            PartLines::Nowhere => anyhow::bail!("{} is gone", path.display()),
        }
    }
}

/// The record of a part of a hunt, whether it goes on or has ended. None where it has not begun.
fn hunt_line(path: &Path, part: &PartFile) -> Result<Option<Vec<u8>>> {
    let json = path.join(HUNT_JSON);
    let text = match read_regular(&json) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {}", json.display()))?,
    };
    let file: HuntFile = serde_json::from_str(&text).map_err(|error| RunError::Malformed {
        path: json,
        reason: format!("it is damaged, or of another version ({error})"),
    })?;
    let Some((run, state)) = part.parts.values().find_map(|state| Some((*state.assigned.first()?, state)))
    else {
        return Ok(None);
    };
    let took_ms = Some(file.spent_ms);
    let record =
        RunRecord { progress: file.schedules, ..RunRecord::new(run, state.finished, took_ms, &file)? };
    Ok(Some(line(&record)?))
}

fn head(line: &[u8], source: usize) -> Result<(u64, RecordHead)> {
    let head = record_head(line, source, 0)?;
    Ok((head.run, head))
}
