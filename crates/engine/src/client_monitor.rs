//! Watches the clients of a run: records their notices, and ends the run when a client ends that should not.

use crate::client_connection::ClientEvents;
use crate::node_log::with_last_line;
use crate::recorder::Recorder;
use crate::stop::Stop;
use fencepost_locks::protocol::Notice;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Receives the events of all clients of a run.
pub(crate) struct ClientMonitor {
    stop: Arc<Stop>,
    /// Set once the recording has begun; notices before that are dropped.
    recorder: OnceLock<Arc<Recorder>>,
    /// Set when the clients are about to be taken down.
    ends_expected: AtomicBool,
    /// Clients that a fault kills, or another client.
    doomed: Vec<String>,
    /// The folder with the logs of all nodes.
    logs: PathBuf,
}

impl ClientMonitor {
    pub(crate) fn new(stop: Arc<Stop>, doomed: Vec<String>, logs: PathBuf) -> ClientMonitor {
        ClientMonitor { stop, recorder: OnceLock::new(), ends_expected: AtomicBool::new(false), doomed, logs }
    }

    /// Records notices from now on.
    pub(crate) fn record_to(&self, recorder: Arc<Recorder>) {
        let _ = self.recorder.set(recorder);
    }

    /// From now on a client may end.
    pub(crate) fn expect_ends(&self) {
        self.ends_expected.store(true, Ordering::Release);
    }
}

impl ClientEvents for ClientMonitor {
    fn notice(&self, notice: Notice) {
        if let Some(recorder) = self.recorder.get() {
            let mut value = serde_json::Map::new();
            value.extend(notice.reason.map(|reason| ("reason".to_owned(), json!(reason))));
            value.extend(notice.point.map(|point| ("point".to_owned(), json!(point))));
            value.extend(notice.age_ms.map(|age_ms| ("age_ms".to_owned(), json!(age_ms))));
            let value = if value.is_empty() { Value::Null } else { Value::Object(value) };
            recorder.notice(notice.process, &notice.event, &notice.key, value);
        }
    }

    fn gone(&self, client: &str, reason: &str) {
        let expected = self.doomed.iter().any(|doomed| doomed == client);
        if !expected && !self.ends_expected.load(Ordering::Acquire) {
            let (stop, logs) = (self.stop.clone(), self.logs.clone());
            let (client, reason) = (client.to_owned(), reason.to_owned());
            // The client's last words may be a moment behind its end.
            tokio::spawn(async move {
                let sentence = with_last_line(&reason, &logs, &client).await;
                stop.fail(format!("{sentence}; the test cannot go on without it"));
            });
        }
    }
}
