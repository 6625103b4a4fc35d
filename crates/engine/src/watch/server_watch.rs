//! Notices when a server or a storage ends although no fault took it down.

use crate::stop::Stop;
use crate::watch::node_log::{LOG_DELAY, as_last_rules};
use crate::watch::server_log::ServerLog;
use fencepost_nemesis::FaultContext;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(100);

/// The servers and storages of a run, and which of them were seen to run last.
pub(crate) struct ServerWatch {
    servers: Vec<String>,
    /// Parts of the test, not of what is tested: without one the run has failed.
    storages: Vec<String>,
    context: Arc<FaultContext>,
    log: ServerLog,
    stop: Arc<Stop>,
    running: BTreeSet<String>,
}

impl ServerWatch {
    pub(crate) fn new(
        servers: Vec<String>,
        storages: Vec<String>,
        context: Arc<FaultContext>,
        log: ServerLog,
        stop: Arc<Stop>,
    ) -> ServerWatch {
        // Each of them served before the run began.
        let running = servers.iter().chain(&storages).cloned().collect();
        ServerWatch { servers, storages, context, log, stop, running }
    }

    /// Records each server that ends; ends the run with a storage; never returns. `takes_down` is no end.
    pub(crate) async fn watch(&mut self, takes_down: impl Fn(&str) -> bool) {
        loop {
            tokio::time::sleep(PERIOD).await;
            self.look(&takes_down).await;
        }
    }

    pub(crate) async fn look(&mut self, takes_down: impl Fn(&str) -> bool) {
        for node in self.servers.iter().chain(&self.storages) {
            if self.context.pid(node).is_ok() {
                self.running.insert(node.clone());
            } else if self.running.remove(node) && !takes_down(node) {
                match self.storages.contains(node) {
                    true => self.fail(node).await,
                    false => {
                        self.log.record_end(node, (None, false), self.context.service_end(node)).await;
                    }
                }
            }
        }
    }

    async fn fail(&self, storage: &str) {
        tokio::time::sleep(LOG_DELAY).await;
        let end = self.context.service_end(storage);
        let how = end.map_or_else(|| "ended by itself".to_owned(), |end| end.status);
        let sentence = format!("the {storage}, a part of the test, {how}, and no fault did that");
        self.stop.fail(as_last_rules(&sentence, &self.log.logs, storage));
    }
}
