//! What faults strike: the nodes with their servers, and the clients.

use crate::FaultError;
use crate::tools::clock::Skew;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The client programs of a run, as far as a nemesis may know them. The runner implements it.
#[async_trait]
pub trait Clients: Send + Sync {
    /// The process number, inside its node, of the client of that name.
    fn pid(&self, client: &str) -> Option<i32>;
}

/// The nodes of a run, what runs on them, and how their clocks are meant to stand.
pub struct World {
    nodes: HashMap<String, Arc<dyn Node>>,
    services: HashMap<String, Running>,
    clients: Arc<dyn Clients>,
    /// Skews that are in force, so that a server that restarts within one gets it again: exec drops the patch.
    skews: Mutex<HashMap<String, Skew>>,
}

/// A node's service and the port at which it answers.
#[derive(Clone, Debug)]
pub struct Running {
    pub service: Service,
    pub port: u16,
}

impl World {
    pub fn new(
        nodes: &[Arc<dyn Node>],
        services: HashMap<String, Running>,
        clients: Arc<dyn Clients>,
    ) -> World {
        let nodes = nodes.iter().map(|node| (node.name().to_owned(), node.clone())).collect();
        World { nodes, services, clients, skews: Mutex::default() }
    }

    /// The names of all nodes, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.nodes.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Result<&Arc<dyn Node>, FaultError> {
        self.nodes.get(name).ok_or_else(|| FaultError::Other(format!("there is no node {name} in this run")))
    }

    /// The process that stands for a target: a server's or the storage's own, or the client program.
    pub fn pid(&self, target: &str) -> Result<i32, FaultError> {
        let pid = match self.services.get(target) {
            Some(running) => self.node(target)?.service_pid(&running.service.name),
            None => self.clients.pid(target),
        };
        pid.ok_or_else(|| FaultError::Other(format!("{target} is not running")))
    }

    /// `host:port` at which the target's server answers; none for a client.
    pub fn server_address(&self, target: &str) -> Option<String> {
        let running = self.services.get(target)?;
        Some(format!("{}:{}", self.nodes.get(target)?.address(), running.port))
    }

    /// Starts the target's service again, with the clock that it is meant to have, and waits until it answers.
    pub async fn restart(&self, target: &str) -> Result<(), FaultError> {
        let node = self.node(target)?;
        let running = self
            .services
            .get(target)
            .ok_or_else(|| FaultError::Other(format!("{target} runs no service that could be restarted")))?;
        let pid = node.start(&running.service).await?;
        let skew = self.skews.lock().expect("never poisoned").get(target).copied();
        if let Some(skew) = skew {
            node.tool("clock", json!({"do": "set", "pid": pid, "skew": skew})).await?;
        }
        self.await_answer(target, Duration::from_secs(10)).await
    }

    /// Waits until the target's own node can connect to the target's port.
    async fn await_answer(&self, target: &str, patience: Duration) -> Result<(), FaultError> {
        let Some(address) = self.server_address(target) else { return Ok(()) };
        let begun = Instant::now();
        loop {
            match self.node(target)?.connect(&address, Duration::from_millis(200)).await? {
                Ok(_) => return Ok(()),
                Err(reason) if begun.elapsed() > patience => {
                    let message =
                        format!("{target} does not answer at {address} after its restart: {reason}");
                    return Err(FaultError::Other(message));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Sets the clock of the target's process, and gives what the process sees: `{"before":…,"after":…}`, each
    /// with `wall_ns` and `monotonic_ns` against the true clocks.
    pub async fn set_clock(&self, target: &str, skew: Option<Skew>) -> Result<Value, FaultError> {
        {
            let mut skews = self.skews.lock().expect("never poisoned");
            match skew {
                Some(skew) => skews.insert(target.to_owned(), skew),
                None => skews.remove(target),
            };
        }
        let args = match skew {
            Some(skew) => json!({"do": "set", "pid": self.pid(target)?, "skew": skew}),
            None => json!({"do": "remove", "pid": self.pid(target)?}),
        };
        Ok(self.node(target)?.tool("clock", args).await?)
    }

    /// Waits until /proc shows the process in a state that `wanted` accepts.
    pub(crate) async fn await_state(
        &self,
        target: &str,
        pid: i32,
        wanted: fn(Option<char>) -> bool,
    ) -> Result<Option<char>, ClusterError> {
        let node = self.nodes.get(target).ok_or_else(|| ClusterError::new(format!("no node {target}")))?;
        let begun = Instant::now();
        loop {
            let state = node.state(pid).await?;
            if wanted(state) || begun.elapsed() > Duration::from_secs(1) {
                return Ok(state);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
