//! Starts the processes of a run on its nodes: servers, storage and clients, in that order.

use crate::existing::Existing;
use crate::run::client_connection::{ClientConnection, ClientEvents};
use crate::run::client_start::{ClientSetup, KnownNodes};
use crate::settings::topology::STORAGE_PORT;
use crate::settings::validation::RunSpec;
use crate::stop::Stop;
use crate::watch::node_log::as_last_rules;
use crate::watch::storage_log;
use anyhow::{Result, anyhow};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{Cluster, ClusterError, Node};
use fencepost_history::{LockFacts, NodeKind};
use fencepost_locks::{Access, LockService, RunAccess, ServiceLeadership, ServiceOrders, log_says_why};
use fencepost_nemesis::{
    ClientPids, ExistingServers, FaultContext, Leadership, Readiness, RunningService, ServerOrders,
};
use fencepost_storage::Need;
use futures_util::future::try_join_all;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The running processes of a run: its clients, and the servers that a fault can be injected into.
pub struct Deployment {
    pub clients: Vec<Arc<ClientConnection>>,
    pub context: Arc<FaultContext>,
    /// `n1: redis-server 7.0.15`, once for servers that are alike.
    pub versions: Vec<String>,
    /// What is known of the lock, now that its clients have said what they can.
    pub lock: LockFacts,
    pub key_prefix: String,
    /// The ways to servers that exist already, open until the run is over.
    pub _doors: Option<JoinSet<()>>,
}

impl Deployment {
    /// The place among the clients, and the connection, of the client of that name (`c1` is the first).
    pub fn client(&self, client: &str) -> Option<(usize, Arc<ClientConnection>)> {
        let at = client.strip_prefix('c')?.parse::<usize>().ok()?.checked_sub(1)?;
        Some((at, self.clients.get(at)?.clone()))
    }
}

/// Starts servers, storage and clients, and checks that the clocks can be moved. `logs`: nodes' logs.
pub async fn start(
    spec: &RunSpec,
    cluster: &Cluster,
    logs: &Path,
    events: Arc<dyn ClientEvents>,
    existing: Option<&Arc<Existing>>,
    stop: &Arc<Stop>,
) -> Result<Deployment> {
    let [servers, storages, clients] =
        [NodeKind::Server, NodeKind::Storage, NodeKind::Client].map(|kind| nodes_of(cluster, kind));
    let doors = match existing {
        Some(existing) => Some(existing.open_doors(&servers, stop).await?),
        None => None,
    };
    let StartedServices { services, access } = start_services(spec, cluster, logs).await?;
    let versions = match existing {
        Some(_) => Vec::new(),
        None => versions(spec, &servers).await?,
    };
    if let Some(existing) = existing {
        existing.put_files(&clients).await?;
    }
    let existing_servers = existing.map(|existing| &**existing);
    let access = access.or_else(|| existing_servers.and_then(Existing::access));
    let setup = ClientSetup::of(spec)?;
    let client_version = setup.version(&clients).await?;
    let known =
        KnownNodes { servers: &servers, storages: &storages, existing: existing_servers, access, logs };
    let connections = setup.connect_all(&clients, &known, events).await?;
    let can = connections.first().map(|connection| connection.hello.can.clone()).unwrap_or_default();
    let lock = spec.lock.facts(&spec.options.lock_options, client_version, &can);
    let pid = |connection: &Arc<ClientConnection>| (connection.name().to_owned(), connection.hello.pid);
    let pids: HashMap<String, i32> = connections.iter().map(pid).collect();
    let pids = Box::new(move |client: &str| pids.get(client).copied());
    let context = fault_context(spec, cluster, services, pids, existing);
    context.check_clocks(&fencepost_nemesis::moved_clocks(&spec.plan, &spec.topology)).await?;
    let key_prefix = existing.map(|it| it.prefix.clone()).unwrap_or_default();
    let context = Arc::new(context);
    Ok(Deployment { clients: connections, context, versions, lock, key_prefix, _doors: doors })
}

pub(crate) fn fault_context(
    spec: &RunSpec,
    cluster: &Cluster,
    services: HashMap<String, RunningService>,
    clients: ClientPids,
    existing: Option<&Arc<Existing>>,
) -> FaultContext {
    let servers = nodes_of(cluster, NodeKind::Server);
    let readiness: Arc<dyn Readiness> = match existing {
        Some(existing) => existing.clone(),
        None => Arc::new(ReadinessOfServers { service: spec.lock.service, servers: servers.clone() }),
    };
    let own = existing.is_none().then_some(spec.lock.service);
    let leadership = own.and_then(|service| Some((service, service.leadership?)));
    let leadership = leadership.map(|(service, leadership)| {
        Arc::new(LeaderOfServers { service, leadership, servers: servers.clone() }) as Arc<dyn Leadership>
    });
    let orders = own
        .and_then(|service| service.orders)
        .map(|orders| Arc::new(OrdersToServers { orders, servers }) as Arc<dyn ServerOrders>);
    FaultContext::new(&cluster.nodes, services, clients, leadership, Some(readiness))
        .with_orders(orders)
        .with_existing(existing.map(|it| it.clone() as Arc<dyn ExistingServers>))
}

pub(crate) struct StartedServices {
    pub(crate) services: HashMap<String, RunningService>,
    pub(crate) access: Option<Access>,
}

/// Starts everything but the clients, and waits until it serves. `logs` is the folder of the nodes' logs.
pub(crate) async fn start_services(
    spec: &RunSpec,
    cluster: &Cluster,
    logs: &Path,
) -> Result<StartedServices> {
    let [servers, storages, clients] =
        [NodeKind::Server, NodeKind::Storage, NodeKind::Client].map(|kind| nodes_of(cluster, kind));
    let addresses: Vec<_> = servers.iter().map(|server| server.address()).collect();
    let access = RunAccess::make(&spec.options.lock_options, &addresses)?;
    if let Some(access) = &access {
        hand_out(spec, access, &servers, &clients).await?;
    }
    if spec.topology.by_name {
        let named = clients.iter().map(|node| fencepost_nemesis::name_nodes(node.as_ref(), &cluster.nodes));
        try_join_all(named).await?;
    }
    let mut services = HashMap::new();
    // Nothing is started for servers that exist already: the doors to them are open.
    let started = if spec.options.existing.are_used() { Vec::new() } else { servers.clone() };
    for (index, node) in started.iter().enumerate() {
        let mut service = spec.lock.service.start_command(index, &servers, &spec.options.lock_options);
        if let Some(faked) = spec.faked {
            fencepost_nemesis::prepare_clock(node.as_ref(), &mut service, faked).await?;
        }
        services.insert(
            node.name().to_owned(),
            RunningService { service, port: spec.lock.service.port_of(index) },
        );
    }
    for node in &storages {
        let service = storage(spec, &servers, access.as_ref(), node).await?;
        services.insert(node.name().to_owned(), RunningService { service, port: STORAGE_PORT });
    }
    if spec.prepares_disks() {
        try_join_all(servers.iter().map(|node| fencepost_nemesis::prepare_disk(node.as_ref()))).await?;
    }
    try_join_all(services.iter().map(|(name, running)| async move {
        let node = cluster.node(name).ok_or_else(|| anyhow!("the driver started no node {name}"))?;
        node.start(&running.service).await?;
        Ok::<_, anyhow::Error>(())
    }))
    .await?;
    if !started.is_empty() {
        spec.lock.service.await_ready(&servers).await.map_err(|error| with_log(&error.0, &servers, logs))?;
        if let Some(access) = &access {
            (spec.lock.service.secure)(&servers, access).await?;
        }
    }
    try_join_all(storages.iter().map(|node| await_port(node, STORAGE_PORT))).await?;
    if started.is_empty() {
        let door =
            Service { name: "door".to_owned(), argv: Vec::new(), env: Vec::new(), refuses_root: false };
        let running = RunningService { service: door, port: spec.lock.service.port() };
        services.extend(servers.iter().map(|node| (node.name().to_owned(), running.clone())));
    }
    if spec.lock.capabilities(&spec.options.lock_options).fences_clients {
        try_join_all(storages.iter().chain(&clients).map(start_fencing_program)).await?;
    }
    Ok(StartedServices { services, access: access.map(|access| access.of_client()) })
}

/// Writes what servers and clients need to reach each other into their nodes.
async fn hand_out(
    spec: &RunSpec,
    access: &RunAccess,
    servers: &[Arc<dyn Node>],
    clients: &[Arc<dyn Node>],
) -> Result<()> {
    let files = spec.lock.service.access_files;
    try_join_all(servers.iter().map(|node| access.give_to_server(node.as_ref(), files(access)))).await?;
    try_join_all(clients.iter().map(|node| access.give_to_client(node.as_ref()))).await?;
    Ok(())
}

/// The sentence about a server that does not serve, with the last lines of its log.
fn with_log(sentence: &str, servers: &[Arc<dyn Node>], logs: &Path) -> anyhow::Error {
    let mut about = servers.iter().map(|node| node.name());
    let found = about.find_map(|name| Some((name, sentence.strip_suffix(&log_says_why(name))?)));
    match found {
        Some((name, what)) => anyhow!("{}", as_last_rules(what, logs, name)),
        None => anyhow!("{sentence}"),
    }
}

pub(crate) fn nodes_of(cluster: &Cluster, kind: NodeKind) -> Vec<Arc<dyn Node>> {
    cluster.nodes.iter().filter(|node| node.kind() == kind).cloned().collect()
}

async fn storage(
    spec: &RunSpec,
    servers: &[Arc<dyn Node>],
    access: Option<&RunAccess>,
    node: &Arc<dyn Node>,
) -> Result<Service> {
    let listen = format!("0.0.0.0:{STORAGE_PORT}");
    let mut argv = [
        "fencepost",
        "storage",
        "--listen",
        &listen,
        "--guard",
        &spec.options.guard,
        "--log",
        storage_log::PATH,
    ]
    .map(str::to_owned)
    .to_vec();
    if !spec.options.storage_write_delay.0.is_zero() {
        argv.extend(["--write-delay-ms".to_owned(), spec.options.storage_write_delay.millis().to_string()]);
    }
    let asks_servers = fencepost_storage::find_guard(&spec.options.guard)
        .is_some_and(|guard| guard.needs == Need::Sequencer);
    if asks_servers {
        let port = spec.lock.service.port();
        let addresses: Vec<String> =
            servers.iter().map(|server| format!("{}:{port}", server.address())).collect();
        argv.extend([
            "--lock".to_owned(),
            spec.options.lock.clone(),
            "--servers".to_owned(),
            addresses.join(","),
        ]);
        if let Some(access) = access {
            argv.extend(["--access".to_owned(), access.give_to_storage(node.as_ref()).await?]);
        }
    }
    Ok(Service { name: "storage".to_owned(), argv, env: Vec::new(), refuses_root: false })
}

async fn start_fencing_program(node: &Arc<dyn Node>) -> Result<()> {
    let argv = ["fencepost", "fence"].map(str::to_owned).to_vec();
    node.start(&Service { name: "fencing".to_owned(), argv, env: Vec::new(), refuses_root: false }).await?;
    await_port(node, fencepost_locks::FENCING_PORT).await
}

async fn await_port(node: &Arc<dyn Node>, port: u16) -> Result<()> {
    let address = format!("{}:{port}", node.address());
    let begun = std::time::Instant::now();
    loop {
        match node.connect(&address, Duration::from_millis(200)).await? {
            Ok(_) => return Ok(()),
            Err(reason) if begun.elapsed() > Duration::from_secs(5) => {
                return Err(anyhow!(
                    "{} does not answer at {address}: {reason}; its log says why",
                    node.name()
                ));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

pub(crate) async fn versions(spec: &RunSpec, servers: &[Arc<dyn Node>]) -> Result<Vec<String>> {
    let found = try_join_all(servers.iter().map(|node| spec.lock.service.version(node, servers))).await?;
    let mut versions: Vec<(String, Vec<&str>)> = Vec::new();
    for (node, version) in servers.iter().zip(found) {
        match versions.iter_mut().find(|(known, _)| *known == version) {
            Some((_, names)) => names.push(node.name()),
            None => versions.push((version, vec![node.name()])),
        }
    }
    Ok(versions.into_iter().map(|(version, names)| format!("{version} on {}", names.join(", "))).collect())
}

struct ReadinessOfServers {
    service: &'static LockService,
    servers: Vec<Arc<dyn Node>>,
}

#[async_trait]
impl Readiness for ReadinessOfServers {
    async fn await_serving(&self, server: &str) -> Result<(), ClusterError> {
        match self.servers.iter().find(|node| node.name() == server) {
            Some(node) => self.service.await_serving(node, &self.servers).await,
            None => Ok(()),
        }
    }
}

struct LeaderOfServers {
    service: &'static LockService,
    leadership: ServiceLeadership,
    servers: Vec<Arc<dyn Node>>,
}

#[async_trait]
impl Leadership for LeaderOfServers {
    async fn leader(&self) -> Result<Option<String>, ClusterError> {
        let place = (self.leadership.leader)(self.service, &self.servers).await?;
        Ok(place.and_then(|place| self.servers.get(place)).map(|node| node.name().to_owned()))
    }

    async fn transfer_leadership(&self, from: &str) -> Result<(), ClusterError> {
        let place = self.servers.iter().position(|node| node.name() == from);
        let place = place.ok_or_else(|| ClusterError::new(format!("there is no server {from}")))?;
        (self.leadership.transfer)(self.service, &self.servers, place).await
    }
}

struct OrdersToServers {
    orders: ServiceOrders,
    servers: Vec<Arc<dyn Node>>,
}

impl OrdersToServers {
    fn node(&self, server: &str) -> Result<&Arc<dyn Node>, ClusterError> {
        let node = self.servers.iter().find(|node| node.name() == server);
        node.ok_or_else(|| ClusterError::new(format!("there is no server {server}")))
    }
}

#[async_trait]
impl ServerOrders for OrdersToServers {
    async fn begin(&self, server: &str, order: &str) -> Result<(Value, bool), ClusterError> {
        (self.orders.begin)(self.node(server)?, order).await
    }

    async fn end(&self, server: &str, order: &str) -> Result<Value, ClusterError> {
        (self.orders.end)(self.node(server)?, order).await
    }
}
