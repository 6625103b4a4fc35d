//! Notices when a server ends although no fault took it down.

use crate::server_log::ServerLog;
use fencepost_nemesis::FaultContext;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How often the processes of the servers are looked at.
const PERIOD: Duration = Duration::from_millis(100);

/// The servers of a run, and which of them were seen to run last.
pub(crate) struct ServerWatch {
    servers: Vec<String>,
    context: Arc<FaultContext>,
    log: ServerLog,
    running: BTreeSet<String>,
}

impl ServerWatch {
    pub(crate) fn new(servers: Vec<String>, context: Arc<FaultContext>, log: ServerLog) -> ServerWatch {
        ServerWatch { servers, context, log, running: BTreeSet::new() }
    }

    /// Watches the servers' processes, and records each that ends; never returns. A server that a fault holds down
    /// (`takes_down`) has not ended by itself.
    pub(crate) async fn watch(&mut self, takes_down: impl Fn(&str) -> bool) {
        loop {
            tokio::time::sleep(PERIOD).await;
            for server in &self.servers {
                if self.context.pid(server).is_ok() {
                    self.running.insert(server.clone());
                } else if self.running.remove(server) && !takes_down(server) {
                    self.log.record_end(server, None).await;
                }
            }
        }
    }
}
