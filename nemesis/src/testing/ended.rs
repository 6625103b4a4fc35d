//! A node whose server has always ended by itself when a signal comes. A supervisor in it takes its time.

use crate::context::{FaultContext, RunningService, SUPERVISOR};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::NodeKind;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// The number of its first process; each start takes the next.
const FIRST: i32 = 52;

/// The number of a supervisor, and how long it runs.
const SUPERVISORS: i32 = 9;
pub(crate) const SUPERVISED: Duration = Duration::from_secs(12);

pub(crate) struct EndedServer {
    /// The process that counts as running, and how often one was started.
    state: Mutex<(Option<i32>, i32)>,
}

/// A context of one node, `n1`.
pub(crate) fn with_a_server_that_has_ended() -> (FaultContext, Arc<EndedServer>) {
    let server = Arc::new(EndedServer { state: Mutex::new((Some(FIRST), 0)) });
    let service =
        Service { name: "redis".to_owned(), argv: Vec::new(), env: Vec::new(), refuses_root: false };
    let services = HashMap::from([("n1".to_owned(), RunningService { service, port: 6379 })]);
    let node: Arc<dyn Node> = server.clone();
    (FaultContext::new(&[node], services, Box::new(|_| None), None, None), server)
}

impl EndedServer {
    pub(crate) fn starts(&self) -> i32 {
        self.state.lock().1
    }
}

#[async_trait]
impl Node for EndedServer {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    fn name(&self) -> &str {
        "n1"
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Server
    }

    async fn start(&self, service: &Service) -> Result<i32, ClusterError> {
        if service.name == SUPERVISOR {
            return Ok(SUPERVISORS);
        }
        let mut state = self.state.lock();
        let starts = state.1 + 1;
        *state = (Some(FIRST + starts), starts);
        Ok(FIRST + starts)
    }

    fn service_pid(&self, name: &str) -> Option<i32> {
        if name == SUPERVISOR { Some(SUPERVISORS) } else { self.state.lock().0 }
    }

    async fn signal(&self, pid: i32, _signal: i32) -> Result<(), ClusterError> {
        self.state.lock().0 = None;
        Err(ClusterError::new(format!("n1: there is no process {pid}")))
    }

    async fn signal_tree(&self, _pid: i32, _signal: i32) -> Result<bool, ClusterError> {
        self.state.lock().0 = None;
        Ok(false)
    }

    async fn await_exit(&self, pid: i32, _timeout: Duration) -> Result<(), ClusterError> {
        if pid == SUPERVISORS {
            tokio::time::sleep(SUPERVISED).await;
        }
        Ok(())
    }

    async fn state(&self, pid: i32) -> Result<Option<char>, ClusterError> {
        Ok((self.state.lock().0 == Some(pid)).then_some('S'))
    }

    async fn connect(
        &self,
        _address: &str,
        _timeout: Duration,
    ) -> Result<std::io::Result<Duration>, ClusterError> {
        Ok(Ok(Duration::from_millis(1)))
    }

    /// Its clock needs nothing; its disk has been written to, and loses nothing.
    async fn tool(&self, name: &str, args: Value) -> Result<Value, ClusterError> {
        Ok(match (name, args["do"].as_str()) {
            ("disk", Some("look")) => json!(1),
            _ => Value::Null,
        })
    }
}
