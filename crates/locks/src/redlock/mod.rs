//! `redlock`: the lock on a majority of independent Redis servers.
//!
//! Source: the Redis documentation, "Distributed locks with Redis", sections "The Redlock algorithm", "Retry on
//! failure" and "Releasing the lock".

mod ballots;
mod lock;
mod tokens;

use crate::backend::{Backend, Lock, Session};
use crate::notices::Notices;
use crate::options::{Options, TokenFrom};
use crate::protocol::Hello;
use crate::redis_node::RedisNode;
use crate::redis_servers;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use fencepost_history::Seed;
use lock::RedlockLock;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct Redlock;

#[async_trait]
impl Backend for Redlock {
    fn name(&self) -> &'static str {
        "redlock"
    }

    fn about(&self) -> &'static str {
        "the Redlock algorithm on a majority of independent Redis servers"
    }

    fn promises(&self) -> &'static str {
        "exclusion while clocks run at about the same rate, delays and pauses are short against the TTL, and servers that lost data stay away for a TTL; ownership; progress; availability with any minority down; no fencing"
    }

    fn has_token(&self, options: &Options) -> bool {
        options.token != TokenFrom::None
    }

    fn has_unique_value(&self, _options: &Options) -> bool {
        true
    }

    fn image(&self) -> Option<&'static str> {
        Some(redis_servers::IMAGE)
    }

    fn default_nodes(&self) -> usize {
        5
    }

    fn options(&self) -> &'static [&'static str] {
        &[
            "redis-persistence",
            "no-elapsed-check",
            "client-clock",
            "no-retry-jitter",
            "retry-delay-ms",
            "release-where",
            "token",
        ]
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        match options.nodes {
            Some(nodes) if nodes < 3 => Err(format!(
                "redlock on {nodes} servers cannot lose any; use --nodes 3 or more, or --backend redis-single"
            )),
            _ => Ok(()),
        }
    }

    fn check_ttl(&self, ttl: Duration) -> Result<(), String> {
        if lock::is_long_enough(ttl) {
            return Ok(());
        }
        Err(format!(
            "a TTL of {} ms is eaten up by Redlock's drift allowance and the time to ask; use 10 ms or more",
            ttl.as_millis()
        ))
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
        if hello.servers.is_empty() {
            return Err("redlock needs servers, and the hello names none".to_owned());
        }
        let options = Arc::new(hello.options()?);
        let nodes: Arc<[_]> = hello.servers.iter().map(|server| Arc::new(RedisNode::open(server))).collect();
        // Those that are down now may come up, and meanwhile a majority is enough.
        let deadline = Instant::now() + redis_servers::FIRST_CONNECT;
        for node in nodes.iter() {
            node.ready(deadline).await;
        }
        Ok(Box::new(RedlockSession { nodes, options, client: hello.client.clone(), seed: Seed(hello.seed) }))
    }
}

struct RedlockSession {
    nodes: Arc<[Arc<RedisNode>]>,
    options: Arc<Options>,
    client: String,
    seed: Seed,
}

impl Session for RedlockSession {
    fn can(&self) -> Vec<String> {
        let token = (self.options.token != TokenFrom::None).then(|| "token".to_owned());
        token.into_iter().chain(["validity".to_owned()]).collect()
    }

    fn lock(&self, process: u64, notices: Notices) -> Box<dyn Lock> {
        let random = self.seed.stream(&format!("lock-{process}"));
        let (nodes, options) = (self.nodes.clone(), self.options.clone());
        Box::new(RedlockLock::new(nodes, options, &self.client, process, random, notices))
    }
}
