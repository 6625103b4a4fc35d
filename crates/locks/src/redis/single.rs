//! `redis-single`: one Redis server. The recipe is in lock.rs.

use super::lock::{RedisSession, capabilities, check_recipe};
use super::node::{RedisDialer, RedisNode};
use super::service::RedisServers;
use crate::definition::LockDefinition;
use crate::error::{ClientError, OptionError, bad_option};
use crate::options::Options;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session};
use async_trait::async_trait;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-single",
    about: "one Redis server: SET NX PX with a unique value, released by a compare-and-delete script",
    claims: "exclusion while the server keeps its data and its clock and holders stop within the TTL; ownership; progress; no fencing",
    service: &ONE_SERVER,
    recipe: &SingleServer,
    options: &["acquire", "release", "value", "watchdog"],
    capabilities,
};

static ONE_SERVER: RedisServers = RedisServers {
    name: "redis",
    default_nodes: 1,
    check: |nodes| match nodes {
        1 => Ok(()),
        nodes => bad_option(
            "nodes",
            format!("redis-single has one server, not {nodes}; use --lock redlock for several, or --nodes 1"),
        ),
    },
};

struct SingleServer;

#[async_trait]
impl Recipe for SingleServer {
    fn check(&self, options: &Options) -> Result<(), OptionError> {
        check_recipe(options)
    }

    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, ClientError> {
        let [server] = hello.servers.as_slice() else {
            return Err(ClientError::BadHello(format!(
                "redis-single needs one server, and the hello names {}",
                hello.servers.len()
            )));
        };
        let dialer = RedisDialer::of(hello).await?;
        RedisSession::begin(RedisNode::open(server, &dialer), hello).await
    }
}
