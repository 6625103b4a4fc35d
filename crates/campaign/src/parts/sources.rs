//! The parts that are merged, and the files that a merge writes of them.

use super::durations::{DURATIONS, Durations};
use super::merged_parts::MergedParts;
use super::part_file::{MERGE_JSON, PartFile, PartState};
use super::part_folder::{PartFolder, find_parts};
use super::records::{RECORDS, RecordHead, RunRecord};
use anyhow::{Context, Result};
use fencepost_engine::{BadUsage, refuse};
use fencepost_history::once;
use fencepost_history::run::{write_inside, write_inside_by};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Parts of one campaign, put together.
pub struct Sources {
    folders: Vec<PartFolder>,
    pub merged: MergedParts,
    /// Where the folders of each part's runs lie, by the number of the part.
    runs_in: BTreeMap<u64, PathBuf>,
}

impl Sources {
    /// Reads the parts that these paths name. Errors: there is none, one cannot be read, or they do not fit.
    pub fn read(paths: &[PathBuf]) -> Result<Sources> {
        let mut found: Vec<PathBuf> = Vec::new();
        for path in paths {
            let cannot = BadUsage::cannot("read", path);
            let parts = find_parts(path).map_err(&cannot)?;
            if parts.is_empty() {
                refuse!(
                    "there is no part in {}; parts are made by compare, scenario and hunt with --shard",
                    path.display()
                );
            }
            for part in parts {
                found.push(fs::canonicalize(&part).map_err(&cannot)?);
            }
        }
        let found = once(found);
        let read = |(source, path): (usize, &PathBuf)| PartFolder::read(path, source);
        let folders: Vec<PartFolder> = found.iter().enumerate().map(read).collect::<Result<_>>()?;
        let (first, others) = folders.split_first().context("no part was named")?;
        let version = env!("CARGO_PKG_VERSION");
        let made_by = &first.merged.file.fencepost;
        if made_by != version {
            refuse!(
                "{} was made by Fencepost {made_by}, and this is {version}; merge with the version that made the parts",
                first.path.display()
            );
        }
        let join = |merged: MergedParts, part: &PartFolder| merged.join(&part.merged);
        let merged = others.iter().try_fold(first.merged.clone(), join).map_err(BadUsage::new)?;
        let mut runs_in = BTreeMap::new();
        for part in merged.file.parts.values() {
            let there = part.runs_in.iter().find(|place| place.is_dir()).cloned().unwrap_or_default();
            runs_in.extend(part.assigned.iter().map(|run| (*run, there.clone())));
        }
        Ok(Sources { folders, merged, runs_in })
    }

    /// What is not there, a sentence each, and which parts are still at work.
    pub fn missing(&self) -> Vec<String> {
        let file = &self.merged.file;
        let at_work = self.folders.iter().filter(|folder| folder.is_running).map(|folder| {
            format!(
                "{} is still at work in {}: merge again when it has ended",
                folder.merged.file.label(),
                folder.path.display()
            )
        });
        self.merged.missing().sentences(file.of).into_iter().chain(at_work).collect()
    }

    /// The record of a run, by its number in the campaign, if it is there. Errors: the file cannot be read.
    fn record(&self, run: u64) -> Result<Option<RunRecord>> {
        let Some(head) = self.merged.records.get(&run) else { return Ok(None) };
        let line = self.line(head)?;
        let record = serde_json::from_slice(&line);
        let folder = self.folders[head.source].path.display();
        Ok(Some(record.with_context(|| format!("the record of run {run} in {folder} is damaged"))?))
    }

    /// What the command kept of a run, if it is there. Errors: unreadable, or of another version.
    pub fn outcome<T: DeserializeOwned>(&self, run: u64) -> Result<Option<T>> {
        let Some(record) = self.record(run)? else { return Ok(None) };
        let outcome = serde_json::from_str(record.value.get());
        Ok(Some(outcome.with_context(|| format!("the record of run {run} is damaged"))?))
    }

    /// What all parts have in common, in the form of their command. Errors: it is of another version.
    pub fn campaign<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_value(self.merged.file.campaign.clone()).context("the parts are of another version")
    }

    fn line(&self, head: &RecordHead) -> Result<Vec<u8>> {
        self.folders[head.source].line(head)
    }

    /// The folder in which the folder of a run lies.
    pub fn runs_in(&self, run: u64) -> PathBuf {
        self.runs_in.get(&run).cloned().unwrap_or_default()
    }

    /// Writes what another merge reads. `name` gives the names for the durations.
    pub fn write(&self, out: &Path, name: impl Fn(u64) -> Option<String>) -> Result<()> {
        let mut took = Vec::new();
        write_inside_by(out, RECORDS, |file| -> Result<()> {
            let mut writer = BufWriter::with_capacity(1 << 20, file);
            for head in self.merged.records.values() {
                let line = self.line(head)?;
                let record: RecordDuration = serde_json::from_slice(&line)?;
                took.extend(name(head.run).zip(record.took_ms).filter(|_| head.done));
                writer.write_all(&line)?;
            }
            Ok(writer.flush()?)
        })?;
        write_inside(out, DURATIONS, Durations::of(took.into_iter()).text().as_bytes())?;
        self.write_file(out, |_, part| part.runs_in.clone())
    }

    /// Writes `merge.json`; `runs_in` gives the places of a part's runs. Errors: it cannot be written.
    pub fn write_file(&self, out: &Path, runs_in: impl Fn(u32, &PartState) -> Vec<PathBuf>) -> Result<()> {
        let mut file: PartFile = self.merged.file.clone();
        for (number, part) in &mut file.parts {
            part.runs_in = runs_in(*number, part);
        }
        let out_whole = fs::canonicalize(out).with_context(|| format!("cannot open {}", out.display()))?;
        for place in file.parts.values_mut().flat_map(|part| &mut part.runs_in) {
            let whole = fs::canonicalize(&*place).ok();
            if let Some(way) = whole.and_then(|whole| pathdiff::diff_paths(whole, &out_whole)) {
                *place = way;
            }
        }
        let text = serde_json::to_string_pretty(&file)? + "\n";
        Ok(write_inside(out, MERGE_JSON, text.as_bytes())?)
    }
}

#[derive(serde::Deserialize)]
struct RecordDuration {
    #[serde(default)]
    took_ms: Option<u64>,
}
