//! The servers of `redis-sentinel`, as a lock service.

use super::configuration::{self, DATA_NODES, GROUP, SENTINELS};
use super::leader;
use crate::error::{OptionError, bad_option};
use crate::options::Options;
use crate::redis::access;
use crate::redis::service as redis;
use crate::run_access::{AccessFile, RunAccess};
use crate::service::{LockService, ServiceLeadership};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use std::sync::Arc;

pub(super) struct RedisSentinel;

#[async_trait]
impl LockService for RedisSentinel {
    fn name(&self) -> &'static str {
        "redis-sentinel"
    }

    fn servers(&self) -> &'static [&'static str] {
        redis::SERVERS
    }

    fn default_nodes(&self) -> usize {
        DATA_NODES + SENTINELS
    }

    fn options(&self) -> &'static [&'static str] {
        redis::OPTIONS
    }

    fn check(&self, options: &Options) -> Result<(), OptionError> {
        match options.nodes {
            Some(nodes) if nodes != self.default_nodes() => bad_option(
                "nodes",
                format!(
                    "redis-sentinel has a primary, two replicas and three Sentinels, not {nodes} servers; leave --nodes out"
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
        match index.checked_sub(DATA_NODES) {
            None => configuration::data_node(index, &addresses, options),
            Some(sentinel) => configuration::sentinel(sentinel, &addresses, options),
        }
    }

    fn access_files(&self, access: &RunAccess) -> Vec<AccessFile> {
        access::files(access, Some(GROUP))
    }

    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        redis::CLOCK_MECHANISMS
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        redis::await_ready(nodes).await?;
        configuration::await_replicated(nodes).await
    }

    /// What replicates from which other server changes with every failover: that it answers has to do.
    async fn await_serving(&self, node: &Arc<dyn Node>, _all: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        redis::await_ready(std::slice::from_ref(node)).await
    }

    async fn version(&self, node: &Arc<dyn Node>, _all: &[Arc<dyn Node>]) -> Result<String, ClusterError> {
        redis::version(node).await
    }

    fn leadership(&self) -> Option<&dyn ServiceLeadership> {
        Some(self)
    }
}

#[async_trait]
impl ServiceLeadership for RedisSentinel {
    async fn leader(&self, nodes: &[Arc<dyn Node>]) -> Result<Option<usize>, ClusterError> {
        Ok(leader::leader(nodes).await)
    }

    async fn transfer_leadership(&self, nodes: &[Arc<dyn Node>], _from: usize) -> Result<(), ClusterError> {
        leader::transfer(nodes).await
    }
}
