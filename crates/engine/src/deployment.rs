//! Starts the processes of a run on its nodes: servers, storage and clients, in that order.

use crate::client_connection::{ClientConnection, ClientEvents};
use crate::topology::{client_names, server_names, storage_names};
use crate::validation::RunSpec;
use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{Cluster, ClusterError, Node, NodeSpec, Role};
use fencepost_locks::protocol::{Hello, Server, VERSION};
use fencepost_locks::{LockService, ServiceLeadership};
use fencepost_nemesis::{Clients, FaultContext, Leadership, Readiness, RunningService};
use fencepost_storage::Need;
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Where the storage listens, inside its node.
const STORAGE_PORT: u16 = 7000;

/// A client connects to its servers before it answers the hello.
const HELLO: Duration = Duration::from_secs(20);

/// The running processes of a run: its clients, and the servers that a fault can be injected into.
pub struct Deployment {
    pub clients: Vec<Arc<ClientConnection>>,
    pub context: Arc<FaultContext>,
    /// `n1: redis-server 7.0.15`, once for servers that are alike.
    pub versions: Vec<String>,
}

impl Deployment {
    /// The place among the clients, and the connection, of the client of that name (`c1` is the first).
    pub fn client(&self, client: &str) -> Option<(usize, Arc<ClientConnection>)> {
        let at = client.strip_prefix('c')?.parse::<usize>().ok()?.checked_sub(1)?;
        Some((at, self.clients.get(at)?.clone()))
    }
}

/// The nodes that a spec needs.
pub fn nodes(spec: &RunSpec) -> Vec<NodeSpec> {
    let node = |name: String, role, image| {
        let may_mount = role == Role::Server && breaks_disks(spec);
        NodeSpec { name, role, image, may_mount }
    };
    let mut nodes = Vec::new();
    if let Some(image) = spec.lock.service.image() {
        nodes.extend(
            server_names(&spec.options, spec.lock).into_iter().map(|name| node(name, Role::Server, image)),
        );
    }
    nodes.extend(
        storage_names(&spec.options, spec.lock, spec.workload)
            .into_iter()
            .map(|name| node(name, Role::Storage, "client")),
    );
    nodes.extend(client_names(&spec.options).into_iter().map(|name| node(name, Role::Client, "client")));
    nodes
}

fn breaks_disks(spec: &RunSpec) -> bool {
    spec.nemeses.iter().any(|nemesis| nemesis.description().prepares_disks)
}

/// Starts servers, storage and clients, and waits until each one serves.
pub async fn start(spec: &RunSpec, cluster: &Cluster, events: Arc<dyn ClientEvents>) -> Result<Deployment> {
    let of_role = |role| cluster.nodes.iter().filter(|node| node.role() == role).cloned().collect::<Vec<_>>();
    let (servers, clients) = (of_role(Role::Server), of_role(Role::Client));
    let mut services = HashMap::new();
    for (index, node) in servers.iter().enumerate() {
        let mut service = spec.lock.service.start_command(index, &servers, &spec.options.lock_options);
        if let Some(faked) = spec.faked {
            fencepost_nemesis::prepare_clock(node.as_ref(), &mut service, faked).await?;
        }
        services.insert(node.name().to_owned(), RunningService { service, port: spec.lock.service.port() });
    }
    let storages = of_role(Role::Storage);
    for node in &storages {
        let service = storage(spec, &servers);
        services.insert(node.name().to_owned(), RunningService { service, port: STORAGE_PORT });
    }
    if breaks_disks(spec) {
        try_join_all(servers.iter().map(|node| fencepost_nemesis::prepare_disk(node.as_ref()))).await?;
    }
    try_join_all(services.iter().map(|(name, running)| async move {
        let node = cluster.node(name).ok_or_else(|| anyhow!("the driver started no node {name}"))?;
        node.start(&running.service).await?;
        Ok::<_, anyhow::Error>(())
    }))
    .await?;
    if !servers.is_empty() {
        spec.lock.service.await_ready(&servers).await?;
    }
    try_join_all(storages.iter().map(|node| await_port(node, STORAGE_PORT))).await?;
    if spec.lock.capabilities(&spec.options.lock_options).fences_clients {
        try_join_all(storages.iter().chain(&clients).map(start_fencing_program)).await?;
    }
    let versions = versions(spec, &servers).await?;
    let connections =
        try_join_all(clients.iter().map(|node| connect(spec, node, &servers, &storages, events.clone())))
            .await?;
    let pids = connections.iter().map(|(name, connection)| (name.clone(), connection.hello.pid)).collect();
    let readiness = ReadinessOfServers { service: spec.lock.service, servers: servers.clone() };
    let leadership = spec
        .lock
        .service
        .leadership()
        .map(|service| Arc::new(LeaderOfServers { service, servers }) as Arc<dyn Leadership>);
    let context = FaultContext::new(
        &cluster.nodes,
        services,
        Arc::new(ClientPids(pids)),
        leadership,
        Some(Arc::new(readiness)),
    );
    let clients = connections.into_iter().map(|(_, connection)| connection).collect();
    Ok(Deployment { clients, context: Arc::new(context), versions })
}

fn storage(spec: &RunSpec, servers: &[Arc<dyn Node>]) -> Service {
    let listen = format!("0.0.0.0:{STORAGE_PORT}");
    let mut argv = ["fencepost", "storage", "--listen", &listen, "--guard", &spec.options.guard]
        .map(str::to_owned)
        .to_vec();
    if !spec.options.storage_write_delay.0.is_zero() {
        argv.extend(["--write-delay-ms".to_owned(), spec.options.storage_write_delay.millis().to_string()]);
    }
    let asks_servers = fencepost_storage::find_guard(&spec.options.guard)
        .is_some_and(|guard| guard.needs() == Need::Sequencer);
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
    }
    Service { name: "storage".to_owned(), argv, env: Vec::new() }
}

/// Starts the program by which clients fence each other.
async fn start_fencing_program(node: &Arc<dyn Node>) -> Result<()> {
    let argv = ["fencepost", "fence"].map(str::to_owned).to_vec();
    node.start(&Service { name: "fencing".to_owned(), argv, env: Vec::new() }).await?;
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

async fn versions(spec: &RunSpec, servers: &[Arc<dyn Node>]) -> Result<Vec<String>> {
    let found = try_join_all(servers.iter().map(|node| spec.lock.service.version(node))).await?;
    let mut versions: Vec<(String, Vec<&str>)> = Vec::new();
    for (node, version) in servers.iter().zip(found) {
        match versions.iter_mut().find(|(known, _)| *known == version) {
            Some((_, names)) => names.push(node.name()),
            None => versions.push((version, vec![node.name()])),
        }
    }
    Ok(versions.into_iter().map(|(version, names)| format!("{version} on {}", names.join(", "))).collect())
}

async fn connect(
    spec: &RunSpec,
    node: &Arc<dyn Node>,
    servers: &[Arc<dyn Node>],
    storages: &[Arc<dyn Node>],
    events: Arc<dyn ClientEvents>,
) -> Result<(String, Arc<ClientConnection>)> {
    let name = node.name().to_owned();
    let storages: Vec<String> =
        storages.iter().map(|storage| format!("{}:{STORAGE_PORT}", storage.address())).collect();
    let hello = Hello {
        hello: VERSION,
        client: name.clone(),
        lock: spec.options.lock.clone(),
        servers: servers
            .iter()
            .map(|server| Server {
                name: server.name().to_owned(),
                address: format!("{}:{}", server.address(), spec.lock.service.port()),
            })
            .collect(),
        storage: storages.first().cloned(),
        storage_replicas: if storages.len() > 1 { storages } else { Vec::new() },
        guard: spec.options.guard.clone(),
        careful: spec.options.careful,
        seed: rand::RngExt::random(&mut spec.seed.stream(&format!("client-{name}"))),
        options: serde_json::to_value(&spec.options.lock_options)
            .context("the options of the lock are no JSON")?,
        pause_at: spec.options.pause_at.clone(),
    };
    let attached = node.attach(&["fencepost".to_owned(), "client".to_owned()]).await?;
    let connection = ClientConnection::open(&hello, attached.stdin, attached.stdout, HELLO, events)
        .await
        .map_err(|sentence| anyhow!("{sentence}; its log says why"))?;
    let claimed = spec.lock.capabilities(&spec.options.lock_options);
    claimed
        .check_announced(&connection.hello.can)
        .map_err(|why| anyhow!("client {name} does not fit the lock {}: {why}", spec.lock.name))?;
    Ok((name, Arc::new(connection)))
}

/// The process numbers of the client programs, inside their nodes.
struct ClientPids(HashMap<String, i32>);

#[async_trait]
impl Clients for ClientPids {
    fn pid(&self, client: &str) -> Option<i32> {
        self.0.get(client).copied()
    }
}

/// The servers of a service, and how it is found out whether one serves.
struct ReadinessOfServers {
    service: &'static dyn LockService,
    servers: Vec<Arc<dyn Node>>,
}

#[async_trait]
impl Readiness for ReadinessOfServers {
    async fn await_serving(&self, server: &str) -> Result<(), ClusterError> {
        match self.servers.iter().find(|node| node.name() == server) {
            Some(node) => self.service.await_serving(node).await,
            None => Ok(()),
        }
    }
}

/// The servers of a service in which one leads.
struct LeaderOfServers {
    service: &'static dyn ServiceLeadership,
    servers: Vec<Arc<dyn Node>>,
}

#[async_trait]
impl Leadership for LeaderOfServers {
    async fn leader(&self) -> Result<Option<String>, ClusterError> {
        let place = self.service.leader(&self.servers).await?;
        Ok(place.and_then(|place| self.servers.get(place)).map(|node| node.name().to_owned()))
    }

    async fn transfer_leadership(&self, from: &str) -> Result<(), ClusterError> {
        let place = self.servers.iter().position(|node| node.name() == from);
        let place = place.ok_or_else(|| ClusterError::new(format!("there is no server {from}")))?;
        self.service.transfer_leadership(&self.servers, place).await
    }
}
