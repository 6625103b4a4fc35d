//! `redis-sentinel`: a primary with two replicas, and three Sentinels that promote a replica when the primary is gone.
//!
//! Sources: the Redis documentation, "High availability with Redis Sentinel" and "Sentinel client spec"; of the lock, see
//! redis_lock.rs.

mod leader;
mod primary;
mod setup;

use crate::backend::{Backend, Session};
use crate::options::{LockValue, Options};
use crate::protocol::Hello;
use crate::redis_lock::{RedisSession, check_recipe};
use crate::redis_servers;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use std::sync::Arc;

/// The first nodes hold the data: a primary, at first n1, and its replicas.
const DATA_NODES: usize = 3;
/// The others watch over them.
const SENTINELS: usize = 3;

pub(crate) struct RedisSentinel;

#[async_trait]
impl Backend for RedisSentinel {
    fn name(&self) -> &'static str {
        "redis-sentinel"
    }

    fn about(&self) -> &'static str {
        "a Redis primary with two replicas (n1 to n3) and three Sentinels (n4 to n6); locks as redis-single"
    }

    fn promises(&self) -> &'static str {
        "exclusion until a failover, which forgets what was not replicated, with --wait less often; ownership; progress; availability with one of each kind down; no fencing"
    }

    fn has_unique_value(&self, options: &Options) -> bool {
        options.value == LockValue::Unique
    }

    fn image(&self) -> Option<&'static str> {
        Some(redis_servers::IMAGE)
    }

    fn default_nodes(&self) -> usize {
        DATA_NODES + SENTINELS
    }

    fn options(&self) -> &'static [&'static str] {
        &["redis-persistence", "acquire", "release", "value", "watchdog", "wait"]
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        if let Some(nodes) = options.nodes.filter(|nodes| *nodes != self.default_nodes()) {
            return Err(format!(
                "redis-sentinel has a primary, two replicas and three Sentinels, not {nodes} servers; leave --nodes out"
            ));
        }
        match options.wait {
            Some(0) => Err("--wait 0 waits for nobody; leave it out".to_owned()),
            Some(wait) if wait as usize >= DATA_NODES => Err(format!(
                "--wait {wait} can never be reached: there are {} replicas; use --wait 1 or --wait 2",
                DATA_NODES - 1
            )),
            _ => check_recipe(options),
        }
    }

    fn port(&self) -> u16 {
        redis_servers::PORT
    }

    fn service(&self, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        let addresses: Vec<_> = nodes.iter().map(|node| node.address()).collect();
        match index.checked_sub(DATA_NODES) {
            None => setup::data_node(index, &addresses, options),
            Some(sentinel) => setup::sentinel(sentinel, &addresses),
        }
    }

    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        crate::redis_node::CLOCK_MECHANISMS
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>], _options: &Options) -> Result<(), ClusterError> {
        redis_servers::await_ready(nodes).await?;
        setup::await_replicated(nodes).await
    }

    async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError> {
        redis_servers::version(node).await
    }

    fn has_leader(&self) -> bool {
        true
    }

    async fn leader(
        &self,
        nodes: &[Arc<dyn Node>],
        _options: &Options,
    ) -> Result<Option<usize>, ClusterError> {
        Ok(leader::leader(nodes).await)
    }

    async fn hand_over(
        &self,
        nodes: &[Arc<dyn Node>],
        _from: usize,
        _options: &Options,
    ) -> Result<(), ClusterError> {
        leader::hand_over(nodes).await
    }

    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, String> {
        let wanted = DATA_NODES + SENTINELS;
        if hello.servers.len() != wanted {
            return Err(format!(
                "redis-sentinel needs {wanted} servers, and the hello names {}",
                hello.servers.len()
            ));
        }
        let (data, sentinels) = hello.servers.split_at(DATA_NODES);
        RedisSession::begin(primary::open(data, sentinels), hello).await
    }
}
