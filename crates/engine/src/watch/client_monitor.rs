//! Watches the clients of a run: records their notices, and ends the run when a client ends that should not.

use crate::run::client_connection::{ClientConnection, ClientEnd, ClientEvents};
use crate::run::recorder::Recorder;
use crate::stop::Stop;
use crate::watch::node_log::as_last_rule;
use fencepost_cluster::{Cluster, Node};
use fencepost_history::{Millis, Name, NoticeValue};
use fencepost_locks::protocol::Notice;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

pub(crate) struct ClientMonitor {
    stop: Arc<Stop>,
    /// Set once the recording has begun; notices before that are dropped.
    recorder: OnceLock<Arc<Recorder>>,
    ends_expected: AtomicBool,
    may_be_killed: Vec<String>,
    places: Mutex<HashMap<String, ClientPlace>>,
    /// Whether these clients have ended, and why, is being found out.
    inquiries: Mutex<Vec<JoinHandle<()>>>,
    logs: PathBuf,
}

#[derive(Clone)]
struct ClientPlace {
    node: Arc<dyn Node>,
    pid: i32,
}

const LOOK: Duration = Duration::from_millis(500);

/// Time for a process to be gone after it closed its output, and for its output to close after its end.
const ENDING: Duration = Duration::from_secs(1);

impl ClientMonitor {
    pub(crate) fn new(stop: Arc<Stop>, may_be_killed: Vec<String>, logs: PathBuf) -> ClientMonitor {
        ClientMonitor {
            stop,
            recorder: OnceLock::new(),
            ends_expected: AtomicBool::new(false),
            may_be_killed,
            places: Mutex::default(),
            inquiries: Mutex::default(),
            logs,
        }
    }

    pub(crate) fn record_to(&self, recorder: Arc<Recorder>) {
        let _ = self.recorder.set(recorder);
    }

    pub(crate) fn watch_all(self: &Arc<Self>, clients: &[Arc<ClientConnection>], cluster: &Cluster) {
        for client in clients {
            if let Some(node) = cluster.node(client.name()) {
                self.watch(client.name(), node.clone(), client.hello.pid);
            }
        }
    }

    /// Notes where a client runs, and watches its process: its children may keep its standard output open.
    fn watch(self: &Arc<Self>, client: &str, node: Arc<dyn Node>, pid: i32) {
        self.places.lock().insert(client.to_owned(), ClientPlace { node: node.clone(), pid });
        let (monitor, client) = (Arc::downgrade(self), client.to_owned());
        tokio::spawn(async move {
            while !is_gone(node.as_ref(), pid).await {
                tokio::time::sleep(LOOK).await;
                if monitor.upgrade().is_none_or(|monitor| monitor.ends_expected.load(Ordering::Acquire)) {
                    return;
                }
            }
            // Where nothing holds the output, the connection ends as well, and that is reported.
            tokio::time::sleep(ENDING).await;
            if let Some(monitor) = monitor.upgrade() {
                let left = "ended, and a program that it started still holds its standard output";
                monitor.gone(&client, ClientEnd::Broke(format!("client {client} {left}")));
            }
        });
    }

    /// Waits until it is known of each client that has ended why it did: a run must not end well meanwhile.
    pub(crate) async fn await_inquiries(&self) {
        let inquiries = std::mem::take(&mut *self.inquiries.lock());
        futures_util::future::join_all(inquiries).await;
    }

    pub(crate) fn expect_ends(&self) {
        self.ends_expected.store(true, Ordering::Release);
    }
}

impl ClientEvents for ClientMonitor {
    fn notice(&self, notice: Notice) {
        if let Some(recorder) = self.recorder.get() {
            let said = NoticeValue {
                age_ms: notice.age_ms.map(Millis::from),
                point: notice.point.map(Name::from),
                reason: notice.reason,
            };
            let value = if said == NoticeValue::default() { Value::Null } else { said.into() };
            recorder.notice(notice.process, &notice.event, &notice.key, value);
        }
    }

    fn gone(&self, client: &str, end: ClientEnd) {
        let expected = self.may_be_killed.iter().any(|name| name == client);
        if expected || self.ends_expected.load(Ordering::Acquire) {
            return;
        }
        let (stop, logs, client) = (self.stop.clone(), self.logs.clone(), client.to_owned());
        let place = self.places.lock().get(&client).cloned();
        // The client's last words may be a moment behind its end.
        let inquiry = tokio::spawn(async move {
            let reason = match (end, place) {
                (ClientEnd::Broke(sentence), _) => sentence,
                (ClientEnd::Closed, Some(ClientPlace { node, pid }))
                    if !ends_within(ENDING, node.as_ref(), pid).await =>
                {
                    format!("client {client} closed its standard output and runs on")
                }
                (ClientEnd::Closed, _) => format!("client {client} ended"),
            };
            let sentence = as_last_rule(&reason, &logs, &client).await;
            stop.fail(format!("{sentence}; the test cannot go on without it"));
        });
        self.inquiries.lock().push(inquiry);
    }
}

async fn ends_within(patience: Duration, node: &dyn Node, pid: i32) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        if is_gone(node, pid).await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

/// A node that does not answer is gone with all that it ran.
async fn is_gone(node: &dyn Node, pid: i32) -> bool {
    !matches!(node.state(pid).await, Ok(Some(state)) if state != 'Z' && state != 'X')
}
