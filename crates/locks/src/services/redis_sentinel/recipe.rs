//! The lock of `redis-sentinel`: that of `redis-single`, on whichever server is the primary.

use super::configuration::{DATA_NODES, SENTINELS};
use super::primary;
use super::service::SENTINEL;
use crate::definition::LockDefinition;
use crate::error::{ClientError, OptionError, bad_option};
use crate::options::Options;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session};
use crate::services::redis::lock::{capabilities, check_recipe, session};
use crate::services::redis::node::RedisDialer;
use async_trait::async_trait;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-sentinel",
    about: "a Redis primary with two replicas (n1 to n3) and three Sentinels (n4 to n6); locks as redis-single",
    claims: "exclusion until a failover, which forgets locks that were not replicated (fewer with --wait); ownership; progress; availability with one of each kind down; no fencing",
    service: &SENTINEL,
    recipe: &OnPrimary,
    options: &["acquire", "release", "prolong", "value", "watchdog", "wait"],
    capabilities,
};

struct OnPrimary;

#[async_trait]
impl Recipe for OnPrimary {
    fn check(&self, options: &Options) -> Result<(), OptionError> {
        match options.wait {
            Some(0) => bad_option("wait", "--wait 0 waits for no replica; leave it out".to_owned()),
            Some(wait) if wait as usize >= DATA_NODES => bad_option(
                "wait",
                format!(
                    "--wait {wait} can never be reached: there are {} replicas; use --wait 1 or --wait 2",
                    DATA_NODES - 1
                ),
            ),
            _ => check_recipe(options),
        }
    }

    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let wanted = DATA_NODES + SENTINELS;
        if hello.servers.len() != wanted {
            return Err(ClientError::BadHello(format!(
                "redis-sentinel needs {wanted} servers, and the hello names {}",
                hello.servers.len()
            )));
        }
        let (data, sentinels) = hello.servers.split_at(DATA_NODES);
        session(primary::open(data, sentinels, RedisDialer::of(hello).await?), hello).await
    }
}
