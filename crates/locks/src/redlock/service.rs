//! The servers of `redlock`: several Redis servers that know nothing of each other.

use crate::error::OptionError;
use crate::options::Options;
use crate::redis::service as redis;
use crate::service::LockService;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use std::sync::Arc;

pub(super) struct IndependentRedis;

#[async_trait]
impl LockService for IndependentRedis {
    fn name(&self) -> &'static str {
        "redis-independent"
    }

    fn image(&self) -> Option<&'static str> {
        Some(redis::IMAGE)
    }

    fn default_nodes(&self) -> usize {
        5
    }

    fn options(&self) -> &'static [&'static str] {
        redis::OPTIONS
    }

    fn check(&self, options: &Options) -> Result<(), OptionError> {
        match options.nodes {
            Some(nodes) if nodes < 3 => Err(OptionError(format!(
                "redlock on {nodes} servers cannot lose any; use --nodes 3 or more, or --lock redis-single"
            ))),
            _ => Ok(()),
        }
    }

    fn port(&self) -> u16 {
        redis::PORT
    }

    fn start_command(&self, _index: usize, _nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        redis::start_command(options)
    }

    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        redis::CLOCK_MECHANISMS
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        redis::await_ready(nodes).await
    }

    async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError> {
        redis::version(node).await
    }
}
