//! What faults act on: the nodes with their servers, and the clients.

use crate::clocks::clock_tool::{ClockCall, ClockLook};
use crate::existing_servers::ExistingServers;
use crate::fault_error::FaultError;
use async_trait::async_trait;
use fencepost_cluster::protocol::{Service, ServiceEnd};
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::NodeKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The process number, inside its node, of the client program of that name.
pub type ClientPids = Box<dyn Fn(&str) -> Option<i32> + Send + Sync>;

/// Which server leads, as the servers say. The engine implements it, for services that have a leader.
#[async_trait]
pub trait Leadership: Send + Sync {
    /// Name of the server that leads now; none while no server does.
    async fn leader(&self) -> Result<Option<String>, ClusterError>;
    /// Requests of the service that another server leads than `from`.
    async fn transfer_leadership(&self, from: &str) -> Result<(), ClusterError>;
}

/// Whether servers serve, by the check of their service. The engine implements it.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// Returns when this server and all others serve; at once for a node that is no server of the service.
    async fn await_serving(&self, server: &str) -> Result<(), ClusterError>;
}

/// Orders to servers that are faults. The engine implements it, for services that have some.
#[async_trait]
pub trait ServerOrders: Send + Sync {
    /// Gives what was seen of it, and whether it took effect.
    async fn begin(&self, server: &str, order: &str) -> Result<(Value, bool), ClusterError>;
    async fn end(&self, server: &str, order: &str) -> Result<Value, ClusterError>;
}

/// The nodes of a run, and what runs on them.
pub struct FaultContext {
    nodes: HashMap<String, Arc<dyn Node>>,
    services: HashMap<String, RunningService>,
    clients: ClientPids,
    leadership: Option<Arc<dyn Leadership>>,
    readiness: Option<Arc<dyn Readiness>>,
    orders: Option<Arc<dyn ServerOrders>>,
    existing: Option<Arc<dyn ExistingServers>>,
}

/// A node's service and the port at which it answers.
#[derive(Clone, Debug)]
pub struct RunningService {
    pub service: Service,
    pub port: u16,
}

fn is_server(node: &Arc<dyn Node>) -> bool {
    node.kind() == NodeKind::Server
}

fn with_options(mut service: Service, options: &Map<String, Value>) -> Service {
    let places: Vec<(usize, String)> = (1..service.argv.len())
        .filter_map(|at| Some((at, options.get(&service.argv[at - 1])?.as_str()?.to_owned())))
        .collect();
    for (at, value) in places {
        service.argv[at] = value;
    }
    service
}

/// Name of the supervisor's service inside a node; see [`crate::processes::supervisor`].
pub(crate) const SUPERVISOR: &str = "supervisor";

/// How long an election may take, and how often the servers are asked for its outcome meanwhile.
const ELECTION: Duration = Duration::from_secs(10);
const ELECTION_POLL: Duration = Duration::from_millis(20);

impl FaultContext {
    /// No `leadership`: each server stands for itself; no `readiness`: a server serves when its port answers.
    pub fn new(
        nodes: &[Arc<dyn Node>],
        services: HashMap<String, RunningService>,
        clients: ClientPids,
        leadership: Option<Arc<dyn Leadership>>,
        readiness: Option<Arc<dyn Readiness>>,
    ) -> FaultContext {
        let nodes = nodes.iter().map(|node| (node.name().to_owned(), node.clone())).collect();
        FaultContext { nodes, services, clients, leadership, readiness, orders: None, existing: None }
    }

    #[must_use]
    pub fn with_orders(self, orders: Option<Arc<dyn ServerOrders>>) -> FaultContext {
        FaultContext { orders, ..self }
    }

    /// The same, with servers that exist without the run: each is a node that stands for it.
    #[must_use]
    pub fn with_existing(self, existing: Option<Arc<dyn ExistingServers>>) -> FaultContext {
        FaultContext { existing, ..self }
    }

    /// Of these, the servers that exist without the run, and the other nodes.
    pub(crate) fn split_existing(&self, targets: &[String]) -> (Vec<String>, Vec<String>) {
        let exists =
            |target: &String| self.existing.is_some() && self.nodes.get(target).is_some_and(is_server);
        targets.iter().cloned().partition(exists)
    }

    pub(crate) fn existing(&self, server: &str) -> Result<&dyn ExistingServers, FaultError> {
        let no = || FaultError::Other(format!("{server} is a server of the run's own"));
        self.existing.as_deref().ok_or_else(no)
    }

    /// Who gives orders to servers. Errors: they have none.
    pub fn orders(&self) -> Result<&dyn ServerOrders, FaultError> {
        let none = || FaultError::Other("these servers have no order for this fault".to_owned());
        self.orders.as_deref().ok_or_else(none)
    }

    pub fn leadership(&self) -> Option<&dyn Leadership> {
        self.leadership.as_deref()
    }

    /// Waits until a server leads that `wanted` accepts; none if that takes more than 10 s.
    pub async fn await_leader(&self, wanted: impl Fn(&str) -> bool) -> Result<Option<String>, FaultError> {
        let Some(leadership) = self.leadership() else {
            return Err(FaultError::Other("these servers have no leader: each stands for itself".to_owned()));
        };
        let begun = Instant::now();
        loop {
            match leadership.leader().await? {
                Some(leader) if wanted(&leader) => return Ok(Some(leader)),
                _ if begun.elapsed() > ELECTION => return Ok(None),
                _ => tokio::time::sleep(ELECTION_POLL).await,
            }
        }
    }

    /// The names of all nodes, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.nodes.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    pub fn node(&self, name: &str) -> Result<&Arc<dyn Node>, FaultError> {
        self.nodes.get(name).ok_or_else(|| FaultError::Other(format!("there is no node {name} in this run")))
    }

    /// The process that stands for a target: a server's or the storage's own, or the client program.
    pub fn pid(&self, target: &str) -> Result<i32, FaultError> {
        let pid = match self.services.get(target) {
            Some(running) => self.node(target)?.service_pid(&running.service.name),
            None => (self.clients)(target),
        };
        pid.ok_or_else(|| FaultError::Other(format!("{target} is not running")))
    }

    /// How the process of a server or storage that has ended did so; none where it is not known.
    pub fn service_end(&self, target: &str) -> Option<ServiceEnd> {
        self.nodes.get(target)?.service_end(&self.services.get(target)?.service.name)
    }

    /// Of these, the servers (or the storage) whose process runs.
    pub fn running(&self, targets: &[String]) -> Vec<String> {
        let runs = |target: &&String| self.services.contains_key(*target) && self.pid(target).is_ok();
        targets.iter().filter(runs).cloned().collect()
    }

    /// The process that reads the target's clock: its own, or while it is down its supervisor's.
    pub(crate) fn clock_reader(&self, target: &str) -> Result<i32, FaultError> {
        let supervisor = || self.nodes.get(target).and_then(|node| node.service_pid(SUPERVISOR));
        self.pid(target).or_else(|down| supervisor().ok_or(down))
    }

    /// `host:port` at which the target's server answers; none for a client.
    pub fn server_address(&self, target: &str) -> Option<String> {
        let running = self.services.get(target)?;
        Some(format!("{}:{}", self.nodes.get(target)?.address(), running.port))
    }

    /// Starts the target's service again, with the clock that it should have. Errors: no answer within 10 s.
    pub async fn restart(&self, target: &str) -> Result<(), FaultError> {
        self.restart_with(target, &Map::new()).await
    }

    /// The same, with other values for these options of its command line.
    pub(crate) async fn restart_with(
        &self,
        target: &str,
        options: &Map<String, Value>,
    ) -> Result<(), FaultError> {
        let node = self.node(target)?;
        let running = self
            .services
            .get(target)
            .ok_or_else(|| FaultError::Other(format!("{target} runs no service that could be restarted")))?;
        let pid = node.start(&with_options(running.service.clone(), options)).await?;
        // Its clocks go on as they were meant to: exec has dropped the patch.
        node.tool("clock", json!(ClockCall::Resume { pid })).await?;
        self.await_answer(target, Duration::from_secs(10)).await
    }

    /// Waits without bound until the target's service says that all serve. Errors: it gives up.
    pub async fn await_serving(&self, target: &str) -> Result<(), FaultError> {
        match &self.readiness {
            Some(readiness) => Ok(readiness.await_serving(target).await?),
            None => Ok(()),
        }
    }

    /// Waits until the target's node can connect to the target's port. Gives up early if its process ends.
    async fn await_answer(&self, target: &str, patience: Duration) -> Result<(), FaultError> {
        let Some(address) = self.server_address(target) else { return Ok(()) };
        let begun = Instant::now();
        loop {
            let answered = self.node(target)?.connect(&address, Duration::from_millis(200)).await?;
            let Err(refusal) = answered else { return Ok(()) };
            if self.pid(target).is_err() {
                return Err(FaultError::Other(format!("{target} ended as soon as it was started again")));
            }
            if begun.elapsed() > patience {
                return Err(FaultError::Other(format!(
                    "{target} does not answer at {address} after its restart: {refusal}"
                )));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What the target's process sees of its clocks. Errors: the target is down, or unreadable.
    pub async fn look_at_clocks(&self, target: &str) -> Result<ClockLook, FaultError> {
        let pid = self.clock_reader(target)?;
        self.call(target, "clock", &ClockCall::Look { pid }).await
    }

    /// Checks before a run whether the targets' clocks can be moved. Errors: whose cannot, and why.
    pub async fn check_clocks(&self, targets: &[String]) -> Result<(), FaultError> {
        for target in targets {
            let check = ClockCall::Check { pid: self.clock_reader(target)? };
            self.call::<Value>(target, "clock", &check).await.map_err(|reason| {
                FaultError::Other(format!("the clock of {target} cannot be moved: {reason}"))
            })?;
        }
        Ok(())
    }

    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        target: &str,
        tool: &str,
        call: &(impl Serialize + Sync),
    ) -> Result<T, FaultError> {
        let answer = self.node(target)?.tool(tool, json!(call)).await?;
        serde_json::from_value(answer).map_err(|error| {
            FaultError::Other(format!("the tool {tool} on {target} gave an unexpected answer: {error}"))
        })
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
