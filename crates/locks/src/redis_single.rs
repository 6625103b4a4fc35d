//! `redis-single`: one Redis server, SET NX PX with a unique value, and a compare-and-delete script.
//!
//! Source: the Redis documentation, "Distributed locks with Redis", section "Correct implementation with a single
//! instance".

use crate::backend::{Backend, Lock, Notices, Options, Session};
use crate::held::{Held, millis_until};
use crate::protocol::Hello;
use crate::redis_node::{RedisNode, Reply, unique_value};
use crate::redis_servers;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::{Completion, Seed, Stream};
use rand::Rng;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Rest between two attempts while the lock is taken, in microseconds: random, so that clients do not march in
/// step, and short, so that a free lock is soon found.
const RETRY_DELAY_US: std::ops::RangeInclusive<u64> = 1_000..=10_000;
/// Of an acquire's time-out, this part is kept for taking back a SET that was not answered.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(250);

pub(crate) struct RedisSingle;

#[async_trait]
impl Backend for RedisSingle {
    fn name(&self) -> &'static str {
        "redis-single"
    }

    fn about(&self) -> &'static str {
        "one Redis server: SET NX PX with a unique value, released by a compare-and-delete script"
    }

    fn has_token(&self) -> bool {
        false
    }

    fn image(&self) -> Option<&'static str> {
        Some(redis_servers::IMAGE)
    }

    fn default_nodes(&self) -> usize {
        1
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        match options.nodes {
            None | Some(1) => Ok(()),
            Some(nodes) => Err(format!(
                "redis-single has one server, not {nodes}; use --backend redlock for several, or --nodes 1"
            )),
        }
    }

    fn port(&self) -> u16 {
        redis_servers::PORT
    }

    fn service(&self, _index: usize, _nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        redis_servers::service(options)
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
        let node = Arc::new(RedisNode::open(server));
        // A server that is down now may come up: operations say so as long as it is not there.
        node.ready(Instant::now() + redis_servers::FIRST_CONNECT).await;
        Ok(Box::new(SingleSession { node, client: hello.client.clone(), seed: Seed(hello.seed) }))
    }
}

struct SingleSession {
    node: Arc<RedisNode>,
    client: String,
    seed: Seed,
}

impl Session for SingleSession {
    fn can(&self) -> Vec<String> {
        vec!["validity".to_owned()]
    }

    fn lock(&self, process: u64, _notices: Notices) -> Box<dyn Lock> {
        Box::new(SingleLock {
            node: self.node.clone(),
            client: self.client.clone(),
            process,
            count: 0,
            random: self.seed.stream(&format!("lock-{process}")),
            held: Vec::new(),
        })
    }
}

struct SingleLock {
    node: Arc<RedisNode>,
    client: String,
    process: u64,
    count: u64,
    random: Stream,
    held: Vec<Held>,
}

#[async_trait]
impl Lock for SingleLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let try_until = deadline - (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        loop {
            self.count += 1;
            let value = unique_value(&self.client, self.process, self.count);
            let begun = Instant::now();
            let why_not = match self.node.connection() {
                None => format!("unreachable: no connection to {}", self.node.name),
                Some(connection) => {
                    match self.node.set_if_free(&connection, key, &value, ttl, try_until).await {
                        Reply::Answer(true) => {
                            let valid_until = begun + ttl;
                            self.held.retain(|held| held.key != key);
                            self.held.push(Held { key: key.to_owned(), value, valid_until });
                            return Completion::Ok(json!({
                                "validity_ms": millis_until(valid_until),
                                "granted_by": [self.node.name],
                            }));
                        }
                        Reply::Answer(false) => "taken: another client holds the lock".to_owned(),
                        // Not executed, or not even sent: nothing is held.
                        Reply::Refused(why) | Reply::Unsent(why) => why,
                        // The SET may have been executed, or may be later. The server executes the commands of one
                        // connection in order: once it answered a compare-and-delete sent after the SET on the
                        // same connection, nothing of this SET is left, nor can come. Without that answer nobody
                        // knows, and a new connection would prove nothing: it can overtake the old one.
                        Reply::Unknown(why) => {
                            match self.node.delete_if_mine(&connection, key, &value, deadline).await {
                                Reply::Answer(_) => why,
                                _ => return Completion::Info(why),
                            }
                        }
                    }
                }
            };
            let delay = Duration::from_micros(self.random.random_range(RETRY_DELAY_US));
            if Instant::now() + delay >= try_until {
                // Each attempt was answered, was not sent, or was taken back.
                return Completion::Fail(why_not);
            }
            sleep(delay).await;
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(place) = self.held.iter().position(|held| held.key == key) else {
            // This process was never granted it, or gave it back: there is nothing to send.
            return Completion::Fail("not-held: this process has not acquired the lock".to_owned());
        };
        let held = self.held.swap_remove(place);
        let Some(connection) = self.node.connection() else {
            // Not sent, so it did not happen: the key stays until its TTL ends.
            return Completion::Fail(format!("unreachable: no connection to {}", self.node.name));
        };
        match self.node.delete_if_mine(&connection, key, &held.value, deadline).await {
            Reply::Answer(true) => Completion::Ok(Value::Null),
            // The script ran and found no key, or another's value: the lock was lost before. It deleted nothing.
            Reply::Answer(false) => {
                Completion::Fail("not-held: the lock was no longer this process's".to_owned())
            }
            // Not executed, or not sent: the key stays until its TTL ends.
            Reply::Refused(why) | Reply::Unsent(why) => Completion::Fail(why),
            // A write without an answer: it may have been executed, and may still be.
            Reply::Unknown(why) => Completion::Info(why),
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        let held = self.held.iter().find(|held| held.key == key);
        Some(held.is_some_and(|held| Instant::now() < held.valid_until))
    }

    fn token(&self, _key: &str) -> Option<u64> {
        None
    }
}
