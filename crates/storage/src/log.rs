//! The storage's log of what it carried out, in its own order: requests can come long after being given up.

use fencepost_history::StorageAccess;
use serde_json::Value;
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

pub(crate) struct AccessLog {
    /// None once a write failed: a gap in the middle would look like an access that was not there.
    file: Option<File>,
}

impl AccessLog {
    pub(crate) fn open(path: &Path) -> Result<AccessLog> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(AccessLog { file: Some(file) })
    }

    /// Each line is written at once, so that a reader of the file finds all that was answered.
    pub(crate) fn add(&mut self, key: &str, process: u64, f: &str, value: &Value) {
        let Some(file) = &mut self.file else { return };
        let access = StorageAccess { key: key.into(), process, f: f.into(), value: value.clone() };
        let mut line = serde_json::to_vec(&access).expect("it has only text and numbers");
        line.push(b'\n');
        if let Err(error) = file.write_all(&line) {
            eprintln!("the storage's log ends here: {error}");
            self.file = None;
        }
    }
}
