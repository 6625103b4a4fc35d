//! Servers that stand for programs outside of any run, as for a run, with faults by hand.

use crate::recording::Recording;
use crate::run::deployment::{self, StartedServices, fault_context, nodes_of};
use crate::run::injection::FaultsByHand;
use crate::run::recorder::{Placement, Recorder};
use crate::settings::names::BadUsage;
use crate::settings::node_specs::{node_specs, run_name};
use crate::settings::validation::RunSpec;
use crate::stop::Stop;
use crate::watch::server_log::ServerLog;
use anyhow::{Context, Result};
use fencepost_cluster::{Capability, Cluster, ClusterSpec, Driver, Entrance, Node, NodeSpec};
use fencepost_history::run::RunFile;
use fencepost_history::{NodeKind, Writer};
use fencepost_nemesis::{FaultContext, Topology};
use futures_util::future::try_join_all;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The node through which this machine's programs reach the servers, so that faults between them apply.
pub const PROGRAMS_NODE: &str = "c1";

/// The servers of a lock, which serve. They are taken down by [`StandingServers::stop`], or on drop.
pub struct StandingServers {
    cluster: Cluster,
    pub servers: Vec<StandingServer>,
    /// `redis-server 8.0.2 on n1`.
    pub versions: Vec<String>,
    pub faults: Arc<FaultsByHand>,
    /// Where programs report what they do with the lock, if that is recorded.
    pub recording: Option<Arc<Recording>>,
    _entrances: Vec<Entrance>,
}

#[derive(Clone, Debug, Serialize)]
pub struct StandingServer {
    pub node: String,
    /// Where programs of this machine reach it.
    pub address: SocketAddr,
}

/// Where the logs of standing servers lie, and the command that made them, if what programs do is recorded.
#[derive(Clone, Copy, Debug)]
pub struct StandingLogs<'a> {
    pub folder: &'a Path,
    pub recorded_by: Option<&'a str>,
}

impl StandingServers {
    /// Starts the servers, and waits until they serve. `logs` has the faults' history. Errors: none start.
    pub async fn start(spec: &RunSpec, logs: StandingLogs<'_>, stop: &Arc<Stop>) -> Result<StandingServers> {
        let driver = fencepost_cluster::select(&spec.options.driver).await?;
        let (_, clean_up) = fencepost_cluster::clean_up_before(driver.as_ref()).await?;
        let mut spec = open_to_faults(spec, &driver.supports().await);
        spec.topology.by_name = true;
        let spec = &spec;
        let folder = logs.folder;
        let cluster_spec = ClusterSpec { run: run_name(spec), nodes: nodes(spec)?, logs: folder.to_owned() };
        let cluster = stop.unless_pulled(async { Ok(driver.start(&cluster_spec).await?) }).await?;
        clean_up.finish().await;
        let serving = async {
            let StartedServices { services, .. } = deployment::start_services(spec, &cluster, folder).await?;
            let versions = deployment::versions(spec, &nodes_of(&cluster, NodeKind::Server)).await?;
            let context = fault_context(spec, &cluster, services, Box::new(|_| None), None);
            Ok((Arc::new(context), versions))
        };
        match stop.unless_pulled(serving).await {
            Ok((context, versions)) => {
                let left = LeftNodes { cluster, context, versions };
                left.stand(spec, driver.as_ref(), logs, stop).await
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
        if let Some(recording) = &self.recording {
            recording.end();
        }
        self.cluster.stop().await?;
        match unhealed.is_empty() {
            true => Ok(()),
            false => anyhow::bail!("{}", unhealed.join("; ")),
        }
    }
}

pub(crate) struct LeftNodes {
    pub(crate) cluster: Cluster,
    pub(crate) context: Arc<FaultContext>,
    pub(crate) versions: Vec<String>,
}

impl LeftNodes {
    /// Opens them to programs of this machine. Errors: a way cannot be opened; nodes are then taken down.
    pub(crate) async fn stand(
        self,
        spec: &RunSpec,
        driver: &dyn Driver,
        logs: StandingLogs<'_>,
        stop: &Arc<Stop>,
    ) -> Result<StandingServers> {
        match stop.unless_pulled(self.opened(spec, driver, logs, stop)).await {
            Ok((entrances, faults, recording)) => Ok(StandingServers {
                servers: servers(&self.cluster, &entrances),
                cluster: self.cluster,
                versions: self.versions,
                faults: Arc::new(faults),
                recording: recording.map(Arc::new),
                _entrances: entrances,
            }),
            Err(error) => {
                self.cluster.stop().await?;
                Err(error)
            }
        }
    }

    async fn opened(
        &self,
        spec: &RunSpec,
        driver: &dyn Driver,
        logs: StandingLogs<'_>,
        stop: &Arc<Stop>,
    ) -> Result<(Vec<Entrance>, FaultsByHand, Option<Recording>)> {
        let service = spec.lock.service;
        let offered = driver.supports().await;
        let spec = open_to_faults(spec, &offered);
        let nodes = nodes_of(&self.cluster, NodeKind::Server);
        let from = self.cluster.node(PROGRAMS_NODE).context("there is no node for programs")?;
        let opened = nodes.iter().enumerate().map(|(at, node)| {
            Entrance::open(from, (node.address(), service.port_of(at)), service.sends_clients_on)
        });
        let entrances = try_join_all(opened).await?;
        let log = server_log(&spec, logs.folder, stop)?;
        let recording = match logs.recorded_by {
            Some(command) => {
                let file = RunFile {
                    driver: driver.name().to_owned(),
                    engine: driver.about().await,
                    servers: self.versions.clone(),
                    ..spec.options.run_file(command.to_owned())
                };
                Some(Recording::begin(&spec, file, logs.folder, &log.recorder)?)
            }
            None => None,
        };
        let faults = FaultsByHand::new(spec.topology, offered, spec.seed, self.context.clone(), log);
        Ok((entrances, faults, recording))
    }
}

fn servers(cluster: &Cluster, entrances: &[Entrance]) -> Vec<StandingServer> {
    let server = |(node, entrance): (&Arc<dyn Node>, &Entrance)| StandingServer {
        node: node.name().to_owned(),
        address: entrance.address,
    };
    nodes_of(cluster, NodeKind::Server).iter().zip(entrances).map(server).collect()
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
    nodes.push(NodeSpec {
        name,
        kind: NodeKind::Client,
        may_mount: false,
        writes_hosts: true,
        ..server.clone()
    });
    Ok(nodes)
}

fn server_log(spec: &RunSpec, logs: &Path, stop: &Arc<Stop>) -> Result<ServerLog> {
    let path = logs.join("history.jsonl");
    // Those of servers which stood before.
    for old in ["history.jsonl", "verdict.json", "report.html"] {
        let _ = std::fs::remove_file(logs.join(old));
    }
    let history = Writer::create(&path)?;
    let recorder = Recorder::new(history, Placement { slots: 1, clients: 1 }, stop.clone(), false);
    let unreadable = spec.lock.service.unreadable_data;
    Ok(ServerLog { logs: logs.to_owned(), unreadable, recorder: Arc::new(recorder) })
}
