//! Writes the folder of a part while it is being made.

use super::durations::{DURATIONS, Durations};
use super::part_file::{PART_JSON, PartFile};
use super::part_folder::PartFolder;
use super::records::{Recording, RunRecord};
use anyhow::Result;
use fencepost_history::run::{open_folder, write_inside};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};

const ASSIGNED: &str = "dealt.txt";

/// A run of a campaign, as lists and files name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKey {
    pub number: u64,
    /// `redlock under clock-jump, 2 of 5`.
    pub label: String,
    /// What is run, as durations name it: the same for runs that take equally long.
    pub name: String,
}

/// A part that is being made. While it exists, a merge knows that it is at work.
pub struct PartWriter {
    folder: PathBuf,
    file: PartFile,
    /// None for a part whose only record is made from what it leaves.
    recording: Option<Recording>,
    took_ms: Mutex<BTreeMap<u64, u64>>,
    names: BTreeMap<u64, String>,
    _at_work: Option<File>,
}

impl PartWriter {
    /// Writes what is to be done, and what was done before. Errors: a file cannot be written.
    pub fn begin<'a>(
        folder: &Path,
        file: PartFile,
        assigned: impl Iterator<Item = &'a RunKey>,
        before: Vec<RunRecord>,
    ) -> Result<PartWriter> {
        let took_ms = before.iter().filter_map(|record| Some((record.run, record.took_ms?))).collect();
        let recording = Recording::begin(folder, before.into_iter())?;
        let part = PartWriter::begin_without_records(folder, file, assigned)?;
        Ok(PartWriter { recording: Some(recording), took_ms: Mutex::new(took_ms), ..part })
    }

    /// The same for a hunt, whose `hunt.json` is its record. Errors: a file cannot be written.
    pub fn begin_without_records<'a>(
        folder: &Path,
        file: PartFile,
        assigned: impl Iterator<Item = &'a RunKey>,
    ) -> Result<PartWriter> {
        // Without locks in the file system, the part seems to have ended; a merge reports it as unfinished.
        let at_work = open_folder(folder).ok().filter(|folder| folder.try_lock().is_ok());
        let (mut words, mut names) = (String::new(), BTreeMap::new());
        for RunKey { number, label, name } in assigned {
            let _ = writeln!(words, "{number} {label}");
            names.insert(*number, name.clone());
        }
        write_inside(folder, ASSIGNED, words.as_bytes())?;
        let folder = folder.to_owned();
        let took_ms = Mutex::default();
        let part = PartWriter { folder, file, recording: None, took_ms, names, _at_work: at_work };
        part.write()?;
        Ok(part)
    }

    fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.file)? + "\n";
        Ok(write_inside(&self.folder, PART_JSON, text.as_bytes())?)
    }

    /// Keeps what came of a run. Errors: the record cannot be written.
    pub fn add(&self, record: &RunRecord) -> Result<()> {
        if let Some(took_ms) = record.took_ms {
            self.took_ms.lock().insert(record.run, took_ms);
        }
        self.recording.as_ref().map_or(Ok(()), |recording| recording.add(record))
    }

    /// Notes that nothing more will be done; `finished`: all runs were made.
    pub fn end(mut self, finished: bool) -> Result<()> {
        let took = std::mem::take(&mut *self.took_ms.lock());
        let named = took.into_iter().filter_map(|(run, ms)| Some((self.names.get(&run)?.clone(), ms)));
        if self.recording.is_some() {
            write_inside(&self.folder, DURATIONS, Durations::of(named).text().as_bytes())?;
        }
        self.file.parts.values_mut().for_each(|part| part.finished = finished);
        self.write()
    }
}

/// The records of an earlier sitting in this folder, by their runs; unreadable ones are left out.
pub fn records_before(folder: &Path) -> BTreeMap<u64, RunRecord> {
    let Ok(part) = PartFolder::read(folder, 0) else { return BTreeMap::new() };
    part.records().map(|record| (record.run, record)).collect()
}
