//! Servers that stand for programs outside of any run, such as somebody's own tests: started as for a run,
//! and reached from this machine.

use crate::deployment::{self, nodes_of};
use crate::names::BadUsage;
use crate::node_specs::node_specs;
use crate::run::run_name;
use crate::stop::Stop;
use crate::validation::RunSpec;
use anyhow::Result;
use fencepost_cluster::{Cluster, ClusterSpec, Entrance};
use fencepost_history::NodeKind;
use futures_util::future::try_join_all;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;

/// Their servers send clients to each other's addresses, which only nodes can reach.
const SENDS_CLIENTS_ON: [&str; 2] = ["redis-sentinel", "redis-cluster"];

/// The servers of a lock, which serve. They are taken down by [`StandingServers::stop`], or when it is
/// dropped.
pub struct StandingServers {
    cluster: Cluster,
    pub servers: Vec<StandingServer>,
    /// `redis-server 8.0.2 on n1`.
    pub versions: Vec<String>,
    _entrances: Vec<Entrance>,
}

#[derive(Clone, Debug, Serialize)]
pub struct StandingServer {
    pub node: String,
    /// Where programs of this machine reach it.
    pub address: SocketAddr,
}

impl StandingServers {
    /// Starts the servers of the spec's lock, and waits until they serve. `logs` is the folder of their logs.
    /// Errors: the lock has no servers, or such that cannot be reached from outside; they do not start.
    pub async fn start(spec: &RunSpec, logs: &Path, stop: &Stop) -> Result<StandingServers> {
        let mut nodes = node_specs(spec);
        nodes.retain(|node| node.kind == NodeKind::Server);
        let service = spec.lock.service;
        if nodes.is_empty() {
            return Err(BadUsage::new(format!("{} has no servers", spec.options.lock)).into());
        }
        if SENDS_CLIENTS_ON.contains(&service.name) {
            let why = "send clients to each other's addresses, which this machine cannot reach";
            return Err(BadUsage::new(format!("the servers of {} {why}", service.name)).into());
        }
        let driver = fencepost_cluster::select(&spec.options.driver).await?;
        let (_, clean_up) = fencepost_cluster::clean_up_before(driver.as_ref()).await?;
        let cluster_spec = ClusterSpec { run: run_name(spec), nodes, logs: logs.to_owned() };
        let cluster = stop.unless_pulled(async { Ok(driver.start(&cluster_spec).await?) }).await?;
        clean_up.finish().await;
        match stop.unless_pulled(serving(spec, &cluster, logs)).await {
            Ok((servers, versions, entrances)) => {
                Ok(StandingServers { cluster, servers, versions, _entrances: entrances })
            }
            Err(error) => {
                cluster.stop().await?;
                Err(error)
            }
        }
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

    /// Takes them down. Errors: something is left.
    pub async fn stop(self) -> Result<()> {
        Ok(self.cluster.stop().await?)
    }
}

async fn serving(
    spec: &RunSpec,
    cluster: &Cluster,
    logs: &Path,
) -> Result<(Vec<StandingServer>, Vec<String>, Vec<Entrance>)> {
    deployment::start_services(spec, cluster, logs).await?;
    let nodes = nodes_of(cluster, NodeKind::Server);
    let versions = deployment::versions(spec, &nodes).await?;
    let opened =
        nodes.iter().enumerate().map(|(at, node)| Entrance::open(node, spec.lock.service.port_of(at)));
    let entrances = try_join_all(opened).await?;
    let server = |(node, entrance): (&std::sync::Arc<dyn fencepost_cluster::Node>, &Entrance)| {
        StandingServer { node: node.name().to_owned(), address: entrance.address() }
    };
    let servers = nodes.iter().zip(&entrances).map(server).collect();
    Ok((servers, versions, entrances))
}
