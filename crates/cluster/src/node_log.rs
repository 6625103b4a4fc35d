//! The log of a node: what its services and clients print, each line with the true time, whatever clock they see.

use crate::ClusterError;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Appends to `<node>.log`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NodeLog(Arc<Mutex<Inner>>);

struct Inner {
    file: File,
    /// Whether the warning that it cannot be written was printed: once is enough.
    warned: bool,
}

impl NodeLog {
    pub(crate) fn open(folder: &Path, node: &str) -> Result<NodeLog, ClusterError> {
        let path = folder.join(format!("{node}.log"));
        let file = std::fs::create_dir_all(folder)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
            .map_err(|error| {
                ClusterError::new(format!("cannot write the log {}: {error}", path.display()))
            })?;
        Ok(NodeLog(Arc::new(Mutex::new(Inner { file, warned: false }))))
    }

    /// One line. A log that cannot be written must not end a run: the history is what counts.
    pub(crate) fn line(&self, service: &str, line: &str) {
        let line = format!("{} {service} | {line}\n", time_of_day());
        let mut inner = self.0.lock();
        if let Err(error) = inner.file.write_all(line.as_bytes())
            && !std::mem::replace(&mut inner.warned, true)
        {
            tracing::warn!("cannot write a node's log: {error}");
        }
    }
}

/// Hours, minutes, seconds and milliseconds of UTC.
fn time_of_day() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = now.as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, now.subsec_millis())
}
