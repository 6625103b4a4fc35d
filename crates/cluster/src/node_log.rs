//! The log of a node: what its programs print, each line with the true time, whatever clock they see.

use crate::ClusterError;
use crate::error::cannot;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest log: a program that writes more must not fill the disk, on which the history is, too.
const BYTES_MAX: u64 = 256 << 20;

/// Appends to `<node>.log`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NodeLog(Arc<Mutex<LogInner>>);

struct LogInner {
    file: File,
    room: u64,
    /// Whether the warning that it cannot be written was printed: once is enough.
    warned: bool,
}

impl NodeLog {
    pub(crate) fn open(folder: &Path, node: &str) -> Result<NodeLog, ClusterError> {
        let path = folder.join(format!("{node}.log"));
        let file = std::fs::create_dir_all(folder)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
            .map_err(cannot("write the log", &path))?;
        Ok(NodeLog(Arc::new(Mutex::new(LogInner { file, room: BYTES_MAX, warned: false }))))
    }

    /// One line. A log that cannot be written must not end a run: the history is what counts.
    pub(crate) fn line(&self, service: &str, line: &str) {
        let line = format!("{} {service} | {line}\n", time_of_day());
        let mut inner = self.0.lock();
        // The agent's notes say how a program ended, and are few.
        let line = match inner.room.checked_sub(line.len() as u64) {
            Some(room) => {
                inner.room = room;
                line
            }
            None if service == "agent" => line,
            None if inner.room == 0 => return,
            None => {
                inner.room = 0;
                format!("{} agent | -- the log is full: what follows is left out\n", time_of_day())
            }
        };
        if let Err(error) = inner.file.write_all(line.as_bytes())
            && !std::mem::replace(&mut inner.warned, true)
        {
            log::warn!("cannot write a node's log: {error}");
        }
    }
}

fn time_of_day() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = now.as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, now.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_takes_notes_of_the_agent_only() {
        let folder = tempfile::tempdir().unwrap();
        let log = NodeLog::open(folder.path(), "c1").unwrap();
        log.0.lock().room = 200;
        for number in 0..100 {
            log.line("client", &format!("line {number}"));
        }
        log.line("agent", "-- process 6 was ended by SIGKILL");
        let text = std::fs::read_to_string(folder.path().join("c1.log")).unwrap();
        assert!(text.len() < 400, "{text}");
        assert!(text.contains("line 0") && !text.contains("line 99"), "{text}");
        let ends = ["what follows is left out", "SIGKILL"].map(|words| text.find(words).unwrap());
        assert!(ends[0] < ends[1] && text.matches("left out").count() == 1, "{text}");
    }
}
