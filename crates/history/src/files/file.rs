//! History files: one event a line, appended as it happens.

use crate::Event;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What can go wrong with a history file. Each message names the file and what to do or where to look.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("cannot read the history {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write the history {path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path}, line {line}: {reason}")]
    Malformed { path: PathBuf, line: usize, reason: String },
}

/// Appends events to a history file, one system call an event: a crash of Fencepost loses nothing recorded.
pub struct Writer {
    file: File,
    path: PathBuf,
    line: Vec<u8>,
}

impl Writer {
    /// Creates the file; an existing one is an error, since a history is never written over.
    pub fn create(path: &Path) -> Result<Writer, HistoryError> {
        let file =
            File::create_new(path).map_err(|source| HistoryError::Write { path: path.to_owned(), source })?;
        Ok(Writer { file, path: path.to_owned(), line: Vec::with_capacity(256) })
    }

    pub fn append(&mut self, event: &Event) -> Result<(), HistoryError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, event).expect("an event is always JSON");
        self.line.push(b'\n');
        self.file
            .write_all(&self.line)
            .map_err(|source| HistoryError::Write { path: self.path.clone(), source })
    }
}
