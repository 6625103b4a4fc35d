//! The storage's own log of what it read and wrote, put into the history when a run is over. A write whose
//! client had given it up can arrive at any time later; only the log shows that it did, and after what.

use crate::run::recorder::Recorder;
use fencepost_history::{Kind, STORAGE_LOG, STORAGE_NODE, StorageAccess};
use fencepost_nemesis::FaultContext;
use serde_json::json;

pub(crate) const PATH: &str = "{data}/accesses.jsonl";

/// So many accesses one event has at most: lines of a history stay short enough to be read by people.
const ACCESSES_MAX: usize = 500;

/// Records the log, without `key_prefix`. If it is missing, checkers conclude less: no failure of the run.
pub(crate) async fn record(context: &FaultContext, recorder: &Recorder, key_prefix: &str) {
    let mut accesses = match read(context).await {
        Ok(accesses) => accesses,
        Err(error) => {
            log::warn!("the storage's log cannot be read, so late writes may go unseen: {error}");
            return;
        }
    };
    for access in &mut accesses {
        if let Some(key) = access.key.strip_prefix(key_prefix).filter(|_| !key_prefix.is_empty()) {
            access.key = key.into();
        }
    }
    for part in accesses.chunks(ACCESSES_MAX) {
        recorder.nemesis(Kind::Info, STORAGE_LOG, json!(part), None);
    }
}

async fn read(context: &FaultContext) -> anyhow::Result<Vec<StorageAccess>> {
    Ok(accesses(&context.node(STORAGE_NODE)?.get(PATH).await?))
}

/// What the log says. A storage that was ended while it wrote leaves half a line at the end.
fn accesses(log: &[u8]) -> Vec<StorageAccess> {
    let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map_while(|line| serde_json::from_slice(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_up_to_half_a_line() {
        let log = b"[\"k0\",3,\"read\",null]\n[\"k0\",3,\"write\",10]\n[\"k0\",4,\"wri";
        let read = accesses(log);
        assert_eq!(read.len(), 2);
        assert_eq!((read[1].process, read[1].value.as_i64()), (3, Some(10)));
        assert!(accesses(b"").is_empty());
    }
}
