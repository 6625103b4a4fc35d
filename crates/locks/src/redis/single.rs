//! `redis-single`: one Redis server. The recipe is in redis_lock.rs.

use crate::backend::{Backend, Session};
use crate::options::{LockValue, Options};
use crate::protocol::Hello;
use crate::redis_lock::{RedisSession, check_recipe};
use crate::redis_node::RedisNode;
use crate::redis_servers;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use std::sync::Arc;

pub(crate) struct RedisSingle;

#[async_trait]
impl Backend for RedisSingle {
    fn name(&self) -> &'static str {
        "redis-single"
    }

    fn about(&self) -> &'static str {
        "one Redis server: SET NX PX with a unique value, released by a compare-and-delete script"
    }

    fn promises(&self) -> &'static str {
        "exclusion while the server keeps its data and its clock and holders stop within the TTL; ownership; progress; no fencing"
    }

    fn has_unique_value(&self, options: &Options) -> bool {
        options.value == LockValue::Unique
    }

    fn image(&self) -> Option<&'static str> {
        Some(redis_servers::IMAGE)
    }

    fn default_nodes(&self) -> usize {
        1
    }

    fn options(&self) -> &'static [&'static str] {
        &["redis-persistence", "acquire", "release", "value", "watchdog"]
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        if let Some(nodes) = options.nodes.filter(|nodes| *nodes != 1) {
            return Err(format!(
                "redis-single has one server, not {nodes}; use --backend redlock for several, or --nodes 1"
            ));
        }
        check_recipe(options)
    }

    fn port(&self) -> u16 {
        redis_servers::PORT
    }

    fn service(&self, _index: usize, _nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        redis_servers::service(options)
    }

    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        crate::redis_node::CLOCK_MECHANISMS
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>], _options: &Options) -> Result<(), ClusterError> {
        redis_servers::await_ready(nodes).await
    }

    async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError> {
        redis_servers::version(node).await
    }

    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, String> {
        let [server] = hello.servers.as_slice() else {
            return Err(format!(
                "redis-single needs one server, and the hello names {}",
                hello.servers.len()
            ));
        };
        RedisSession::begin(RedisNode::open(server), hello).await
    }
}
