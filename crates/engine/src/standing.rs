//! Servers that stand for programs outside of any run, such as somebody's own tests: started as for a run,
//! reached from this machine, and open to faults by hand.

use crate::run::deployment::{self, StartedServices, fault_context, nodes_of};
use crate::run::injection::FaultsByHand;
use crate::run::recorder::{Placement, Recorder};
use crate::run::run_name;
use crate::settings::names::BadUsage;
use crate::settings::node_specs::node_specs;
use crate::settings::validation::RunSpec;
use crate::stop::Stop;
use crate::watch::server_log::ServerLog;
use anyhow::{Context, Result};
use fencepost_cluster::{Capability, Cluster, ClusterSpec, Entrance, Node, NodeSpec};
use fencepost_history::{NodeKind, Writer};
use fencepost_nemesis::{NoClients, RunningService, Topology};
use futures_util::future::try_join_all;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Their servers send clients to each other's addresses, which only nodes can reach.
const SENDS_CLIENTS_ON: [&str; 2] = ["redis-sentinel", "redis-cluster"];

/// The node from which the programs of this machine reach the servers: faults of packets between it and a
/// server are faults between those programs and the server.
pub const PROGRAMS_NODE: &str = "c1";

/// The servers of a lock, which serve. They are taken down by [`StandingServers::stop`], or when it is
/// dropped.
pub struct StandingServers {
    cluster: Cluster,
    pub servers: Vec<StandingServer>,
    /// `redis-server 8.0.2 on n1`.
    pub versions: Vec<String>,
    pub faults: Arc<FaultsByHand>,
    _entrances: Vec<Entrance>,
}

#[derive(Clone, Debug, Serialize)]
pub struct StandingServer {
    pub node: String,
    /// Where programs of this machine reach it.
    pub address: SocketAddr,
}

impl StandingServers {
    /// Starts the servers of the spec's lock, and waits until they serve. `logs` is the folder of their logs,
    /// and of the history of faults. Errors: the lock has no servers, or such that cannot be reached from
    /// outside; they do not start.
    pub async fn start(spec: &RunSpec, logs: &Path, stop: &Arc<Stop>) -> Result<StandingServers> {
        let service = spec.lock.service;
        if SENDS_CLIENTS_ON.contains(&service.name) {
            let why = "send clients to each other's addresses, which this machine cannot reach";
            return Err(BadUsage::new(format!("the servers of {} {why}", service.name)).into());
        }
        let driver = fencepost_cluster::select(&spec.options.driver).await?;
        let (_, clean_up) = fencepost_cluster::clean_up_before(driver.as_ref()).await?;
        let offered = driver.supports().await;
        let spec = &open_to_faults(spec, &offered);
        let cluster_spec = ClusterSpec { run: run_name(spec), nodes: nodes(spec)?, logs: logs.to_owned() };
        let cluster = stop.unless_pulled(async { Ok(driver.start(&cluster_spec).await?) }).await?;
        clean_up.finish().await;
        match stop.unless_pulled(serving(spec, &cluster, logs)).await {
            Ok(Serving { servers, versions, entrances, services }) => {
                let context = Arc::new(fault_context(spec, &cluster, services, Arc::new(NoClients), None));
                let log = server_log(spec, logs, stop)?;
                let faults = FaultsByHand::new(spec.topology.clone(), offered, spec.seed, context, log);
                let faults = Arc::new(faults);
                Ok(StandingServers { cluster, servers, versions, faults, _entrances: entrances })
            }
            Err(error) => {
                cluster.stop().await?;
                Err(error)
            }
        }
    }

    /// All of them, with the one for programs of this machine.
    pub fn nodes(&self) -> Vec<Arc<dyn Node>> {
        self.cluster.nodes.clone()
    }

    /// Returns when one of the nodes is gone, which nothing here does.
    pub async fn broken(&self) -> String {
        let gone = self.cluster.nodes.iter().map(|node| {
            Box::pin(async move {
                node.gone().await;
                format!("the node {} is gone", node.name())
            })
        });
        futures_util::future::select_all(gone).await.0
    }

    /// Heals all faults, and takes the servers down. Errors: a fault could not be healed, something is left.
    pub async fn stop(self) -> Result<()> {
        let unhealed = self.faults.end().await;
        self.cluster.stop().await?;
        match unhealed.is_empty() {
            true => Ok(()),
            false => anyhow::bail!("{}", unhealed.join("; ")),
        }
    }
}

/// The same, with what faults need that this driver offers, and a node for programs as its only client.
fn open_to_faults(spec: &RunSpec, offered: &[Capability]) -> RunSpec {
    let all = fencepost_nemesis::registry().iter().copied();
    let possible = all.filter(|nemesis| nemesis.description().unmet(offered).is_none());
    let clients = vec![PROGRAMS_NODE.to_owned()];
    let topology = Topology { clients, storage: None, ..spec.topology.clone() };
    RunSpec { nemeses: possible.collect(), topology, ..spec.clone() }
}

/// The servers, and a node like them from which programs come. Errors: the lock has no servers.
fn nodes(spec: &RunSpec) -> Result<Vec<NodeSpec>, BadUsage> {
    let mut nodes = node_specs(spec);
    nodes.retain(|node| node.kind == NodeKind::Server);
    let Some(server) = nodes.first() else {
        return Err(BadUsage::new(format!("{} has no servers", spec.options.lock)));
    };
    let name = PROGRAMS_NODE.to_owned();
    nodes.push(NodeSpec { name, kind: NodeKind::Client, may_mount: false, ..server.clone() });
    Ok(nodes)
}

fn server_log(spec: &RunSpec, logs: &Path, stop: &Arc<Stop>) -> Result<ServerLog> {
    let path = logs.join("history.jsonl");
    // That of servers which stood before.
    let _ = std::fs::remove_file(&path);
    let history = Writer::create(&path)?;
    let recorder = Recorder::new(history, Placement { slots: 1, clients: 1 }, stop.clone(), false);
    let unreadable = spec.lock.service.unreadable_data;
    Ok(ServerLog { logs: logs.to_owned(), unreadable, recorder: Arc::new(recorder) })
}

struct Serving {
    servers: Vec<StandingServer>,
    versions: Vec<String>,
    entrances: Vec<Entrance>,
    services: HashMap<String, RunningService>,
}

async fn serving(spec: &RunSpec, cluster: &Cluster, logs: &Path) -> Result<Serving> {
    let StartedServices { services, .. } = deployment::start_services(spec, cluster, logs).await?;
    let nodes = nodes_of(cluster, NodeKind::Server);
    let versions = deployment::versions(spec, &nodes).await?;
    let from = cluster.node(PROGRAMS_NODE).context("the driver started no node for programs")?;
    let opened = nodes.iter().enumerate().map(|(at, node)| {
        let server = format!("{}:{}", node.address(), spec.lock.service.port_of(at));
        async move { Entrance::open(from, &server).await }
    });
    let entrances = try_join_all(opened).await?;
    let server = |(node, entrance): (&Arc<dyn Node>, &Entrance)| StandingServer {
        node: node.name().to_owned(),
        address: entrance.address(),
    };
    let servers = nodes.iter().zip(&entrances).map(server).collect();
    Ok(Serving { servers, versions, entrances, services })
}
