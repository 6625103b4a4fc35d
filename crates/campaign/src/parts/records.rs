//! `records.jsonl`: a line for each run of a part that was made, or failed. Lines are appended as runs end.

use anyhow::{Context, Result};
use fencepost_history::run::{RunError, append_regular, write_inside_by};
use fencepost_history::{is_too_long, read_line};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The name of the file in the folder of a part, and of a merge.
pub const RECORDS: &str = "records.jsonl";

/// What came of one run of a campaign.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunRecord {
    pub run: u64,
    /// Whether it need not be made again.
    pub done: bool,
    /// Of two records of one run that is not done, the one that is further says more.
    #[serde(default)]
    pub progress: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// What the command keeps of it.
    pub value: Box<RawValue>,
}

impl RunRecord {
    /// A record with this value. Errors: the value cannot be put into JSON.
    pub fn new(run: u64, done: bool, took_ms: Option<u64>, value: &impl Serialize) -> Result<RunRecord> {
        Ok(RunRecord { run, done, progress: 0, took_ms, value: serde_json::value::to_raw_value(value)? })
    }
}

/// A record without its value, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    pub run: u64,
    pub done: bool,
    pub progress: u64,
    /// Tells the line from others.
    pub digest: [u8; 16],
    /// Which of the files that are merged has it.
    pub source: usize,
    pub offset: u64,
    pub bytes: usize,
}

#[derive(Deserialize)]
struct HeadLine {
    run: u64,
    done: bool,
    #[serde(default)]
    progress: u64,
}

/// The heads of all records of a file, by their runs; of two of one run, the later. A half-written line is
/// passed over. `path`: for messages; `source`: its place among merged files.
pub(super) fn read_records(file: &File, path: &Path, source: usize) -> Result<BTreeMap<u64, RecordHead>> {
    let (mut heads, mut offset, mut line) = (BTreeMap::new(), 0, Vec::new());
    let mut reader = BufReader::with_capacity(1 << 20, file);
    for number in 1.. {
        line.clear();
        let no_record = |error: String| RunError::Malformed {
            path: path.to_owned(),
            reason: format!("line {number} is no record of a run ({error}); make this part again"),
        };
        let bytes = match read_line(&mut reader, &mut line) {
            Err(error) if is_too_long(&error) => return Err(no_record(error.to_string()).into()),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        if !line.ends_with(b"\n") {
            break;
        }
        let head = record_head(&line, source, offset).map_err(|error| no_record(error.to_string()))?;
        heads.insert(head.run, head);
        offset += bytes as u64;
    }
    Ok(heads)
}

pub(super) fn record_head(line: &[u8], source: usize, offset: u64) -> serde_json::Result<RecordHead> {
    let HeadLine { run, done, progress } = serde_json::from_slice(line)?;
    let mut digest = [0; 16];
    digest.copy_from_slice(&Sha256::digest(line)[..16]);
    Ok(RecordHead { run, done, progress, digest, source, offset, bytes: line.len() })
}

/// Reads the line of a record. Errors: the file cannot be read.
pub(super) fn line_of(file: &File, head: &RecordHead) -> std::io::Result<Vec<u8>> {
    let mut line = vec![0; head.bytes];
    file.read_exact_at(&mut line, head.offset)?;
    Ok(line)
}

pub(super) struct Recording {
    file: Mutex<File>,
}

impl Recording {
    /// Begins the file in the folder of a part with what was done before. Errors: the file cannot be written.
    pub fn begin(folder: &Path, before: impl Iterator<Item = RunRecord>) -> Result<Recording> {
        write_inside_by(folder, RECORDS, |file| -> Result<()> {
            let mut writer = BufWriter::new(file);
            for record in before {
                writer.write_all(&line(&record)?)?;
            }
            Ok(writer.flush()?)
        })?;
        let path = folder.join(RECORDS);
        let file = append_regular(&path);
        Ok(Recording { file: Mutex::new(file.with_context(|| format!("cannot write {}", path.display()))?) })
    }

    /// Adds a record, whole. Errors: the file cannot be written.
    pub fn add(&self, record: &RunRecord) -> Result<()> {
        let line = line(record)?;
        self.file.lock().write_all(&line).context("cannot write what came of a run")
    }
}

/// The line of a record. Errors: none in practice: writing to memory.
pub(super) fn line(record: &RunRecord) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}
