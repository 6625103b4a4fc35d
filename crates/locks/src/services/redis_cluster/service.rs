//! The servers of `redis-cluster`, as a lock service.

use super::configuration::{self, SERVERS, SHARDS, SLOT, TAG};
use super::view;
use crate::error::{OptionError, bad_option};
use crate::options::Options;
use crate::readiness::{Awaited, START_TIME};
use crate::redis::access;
use crate::redis::refusals;
use crate::redis::service as redis;
use crate::run_access::{AccessFile, RunAccess};
use crate::service::{LockService, ServiceLeadership, ServiceRefusals};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use std::sync::Arc;
use std::time::Duration;

pub(super) struct RedisCluster;

#[async_trait]
impl LockService for RedisCluster {
    fn name(&self) -> &'static str {
        "redis-cluster"
    }

    fn servers(&self) -> &'static [&'static str] {
        redis::SERVERS
    }

    fn default_nodes(&self) -> usize {
        SERVERS
    }

    /// Two may be the locks' primary and its only replica.
    fn may_be_down(&self) -> Option<usize> {
        Some(SERVERS / SHARDS - 1)
    }

    /// A primary that starts takes writes 2 s later (`CLUSTER_WRITABLE_DELAY`).
    fn setup_time(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn options(&self) -> &'static [&'static str] {
        redis::OPTIONS
    }

    fn check(&self, options: &Options) -> Result<(), OptionError> {
        match options.nodes {
            Some(nodes) if nodes != SERVERS => bad_option(
                "nodes",
                format!(
                    "redis-cluster has three primaries and a replica of each, not {nodes} servers; leave --nodes out"
                ),
            ),
            _ => Ok(()),
        }
    }

    fn port(&self) -> u16 {
        redis::PORT
    }

    fn start_command(&self, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        let addresses: Vec<_> = nodes.iter().map(|node| node.address()).collect();
        configuration::server(index, &addresses, options)
    }

    fn access_files(&self, access: &RunAccess) -> Vec<AccessFile> {
        access::files(access, None)
    }

    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        redis::CLOCK_MECHANISMS
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        redis::await_ready(nodes).await?;
        for node in nodes {
            let trouble = async || {
                let state = redis::ask(node, &["CLUSTER", "INFO"]).await?;
                let replication = redis::ask(node, &["INFO", "replication"]).await?;
                Ok(missing(&state, &replication).map(str::to_owned))
            };
            let awaited = Awaited { node, server: "Redis", services: &["redis"], within: START_TIME };
            awaited.serves(trouble).await?;
        }
        if let Some(node) = nodes.first() {
            let slot = redis::ask(node, &["CLUSTER", "KEYSLOT", TAG]).await?.concat();
            if slot != SLOT.to_string() {
                return Err(format!("{} says that {TAG} has the slot {slot}, not {SLOT}", node.name()).into());
            }
        }
        Ok(())
    }

    /// Whose replica it is may have changed, and a cluster without a majority is no fault of this server:
    /// that it answers has to do.
    async fn await_serving(&self, node: &Arc<dyn Node>, _all: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        redis::await_ready(std::slice::from_ref(node)).await
    }

    async fn version(&self, node: &Arc<dyn Node>, _all: &[Arc<dyn Node>]) -> Result<String, ClusterError> {
        redis::version(node).await
    }

    fn refusals(&self) -> Option<&dyn ServiceRefusals> {
        Some(&refusals::OF_A_CLUSTER)
    }

    fn leadership(&self) -> Option<&dyn ServiceLeadership> {
        Some(self)
    }
}

/// What a server lacks to be part of a whole cluster, by its own answers.
fn missing(state: &[String], replication: &[String]) -> Option<&'static str> {
    let says = |lines: &[String], line: &str| lines.iter().any(|own| own == line);
    if !says(state, "cluster_state:ok") {
        return Some("its cluster_state is not ok");
    }
    let is_replica = says(replication, "role:slave");
    (is_replica && !says(replication, "master_link_status:up"))
        .then_some("it has not the data of its primary")
}

#[async_trait]
impl ServiceLeadership for RedisCluster {
    async fn leader(&self, nodes: &[Arc<dyn Node>]) -> Result<Option<usize>, ClusterError> {
        Ok(view::leader(nodes).await)
    }

    async fn transfer_leadership(&self, nodes: &[Arc<dyn Node>], _from: usize) -> Result<(), ClusterError> {
        view::transfer(nodes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_in_a_whole_cluster_and_with_the_data_of_its_primary() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let ready = |state, replication| missing(&lines(state), &lines(replication)).is_none();
        assert!(ready("cluster_state:ok", "role:master"));
        assert!(ready("cluster_state:ok", "role:slave master_link_status:up"));
        assert!(!ready("cluster_state:fail", "role:master"));
        assert!(!ready("cluster_state:ok", "role:slave master_link_status:down"));
    }
}
