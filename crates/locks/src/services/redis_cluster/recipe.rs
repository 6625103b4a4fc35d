//! The lock of `redis-cluster`: that of `redis-single`, on the current primary of the locks' shard.

use super::configuration::{SERVERS, SHARDS};
use super::service::CLUSTER;
use super::shard;
use crate::definition::LockDefinition;
use crate::error::{ClientError, OptionError, bad_option};
use crate::options::Options;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session};
use crate::services::redis::lock::{capabilities, check_recipe, session};
use crate::services::redis::node::RedisDialer;
use async_trait::async_trait;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-cluster",
    about: "a Redis Cluster of three primaries (n1 to n3) with a replica each (n4 to n6); locks as redis-single, all on one shard",
    claims: "exclusion until a failover of the shard, which forgets locks that were not replicated (fewer with --wait 1); ownership; progress; availability with one server down; no fencing",
    service: &CLUSTER,
    recipe: &OnShard,
    options: &["acquire", "release", "prolong", "value", "watchdog", "wait"],
    capabilities,
};

struct OnShard;

#[async_trait]
impl Recipe for OnShard {
    fn check(&self, options: &Options) -> Result<(), OptionError> {
        let replicas = SERVERS / SHARDS - 1;
        match options.wait {
            Some(wait) if wait as usize != replicas => bad_option(
                "wait",
                format!(
                    "a primary of redis-cluster has one replica, not {wait}; use --wait 1, or leave it out"
                ),
            ),
            _ => check_recipe(options),
        }
    }

    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        if hello.servers.len() != SERVERS {
            return Err(ClientError::BadHello(format!(
                "redis-cluster needs {SERVERS} servers, and the hello names {}",
                hello.servers.len()
            )));
        }
        session(shard::open(&hello.servers, RedisDialer::of(hello).await?), hello).await
    }
}
