//! `zookeeper-ephemeral` and `zookeeper-sequential`: locks that live as long as a session does.
//!
//! Sources: ZooKeeper's "Recipes and Solutions", section "Locks"; and Apache Curator's `LockInternals` and
//! `StandardLockInternalsDriver`, with the protected creation of `CreateBuilderImpl` (a random part of the name by
//! which a client finds its own znode after the connection broke).

mod hadoop;
mod lock;
mod recipe;
mod servers;
mod session;

use crate::backend::{Backend, Lock, Session};
use crate::notices::Notices;
use crate::options::Options;
use crate::protocol::Hello;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use lock::ZkLock;
use recipe::Recipe;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct ZooKeeperEphemeral;
pub(crate) struct ZooKeeperSequential;
pub(crate) struct Hadoop;

/// Everything but name, description, options and recipe is the same.
macro_rules! backend {
    ($backend:ident, $name:literal, $about:literal, $options:expr, $connect:expr) => {
        #[async_trait]
        impl Backend for $backend {
            fn name(&self) -> &'static str {
                $name
            }

            fn about(&self) -> &'static str {
                $about
            }

            fn promises(&self) -> &'static str {
                "exclusion of sessions, ownership, progress, availability with a majority up, fencing; \
                 a holder that outlives its session is kept out by its token"
            }

            fn has_token(&self, _options: &Options) -> bool {
                true
            }

            fn image(&self) -> Option<&'static str> {
                Some("zookeeper")
            }

            fn default_nodes(&self) -> usize {
                3
            }

            fn options(&self) -> &'static [&'static str] {
                $options
            }

            fn fences_clients(&self) -> bool {
                self.options().contains(&"fence")
            }

            fn check(&self, options: &Options) -> Result<(), String> {
                servers::check(options)
            }

            fn check_ttl(&self, ttl: Duration) -> Result<(), String> {
                servers::check_ttl(ttl)
            }

            fn port(&self) -> u16 {
                servers::CLIENT_PORT
            }

            fn service(&self, index: usize, nodes: &[Arc<dyn Node>], _options: &Options) -> Service {
                servers::service(index, nodes)
            }

            fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
                // A JVM waits by absolute times: moved by a patch, its waits last as long as the jump.
                &[ClockMechanism::Faketime]
            }

            async fn await_ready(&self, nodes: &[Arc<dyn Node>], _: &Options) -> Result<(), ClusterError> {
                servers::await_ready(nodes, servers::READY_WITHIN).await
            }

            async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError> {
                servers::version(node).await
            }

            fn has_leader(&self) -> bool {
                true
            }

            async fn leader(
                &self,
                nodes: &[Arc<dyn Node>],
                _options: &Options,
            ) -> Result<Option<usize>, ClusterError> {
                servers::leader(nodes).await
            }

            async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, String> {
                let connect: fn(&Hello, Arc<str>) -> Result<Box<dyn Session>, String> = $connect;
                connect(hello, addresses(hello)?)
            }
        }
    };
}

backend!(
    ZooKeeperEphemeral,
    "zookeeper-ephemeral",
    "one ephemeral znode: whoever creates it holds, everybody else watches it; its czxid is the token",
    &[],
    |_, servers| Ok(Box::new(ZkSession { servers, recipe: Recipe::Ephemeral }))
);
backend!(
    ZooKeeperSequential,
    "zookeeper-sequential",
    "Curator's recipe: a queue of ephemeral sequential znodes, each watches its predecessor; czxid is the token",
    &[],
    |_, servers| Ok(Box::new(ZkSession { servers, recipe: Recipe::Sequential }))
);
backend!(
    Hadoop,
    "hadoop",
    "Hadoop's election of an active node, on ZooKeeper: a breadcrumb says who was active, and whoever follows fences it",
    &["fence"],
    hadoop::HadoopSession::open
);

/// The servers, as ZooKeeper's clients take them.
fn addresses(hello: &Hello) -> Result<Arc<str>, String> {
    if hello.servers.is_empty() {
        return Err("ZooKeeper needs servers, and the hello names none".to_owned());
    }
    let addresses: Vec<&str> = hello.servers.iter().map(|server| server.address.as_str()).collect();
    Ok(addresses.join(",").into())
}

/// What the processes of a client share: only where the servers are. Ephemeral znodes belong to sessions, so each
/// process has one of its own.
struct ZkSession {
    servers: Arc<str>,
    recipe: Recipe,
}

impl Session for ZkSession {
    fn can(&self) -> Vec<String> {
        ["token", "validity", "lost", "extend"].map(str::to_owned).to_vec()
    }

    fn lock(&self, _process: u64, notices: Notices) -> Box<dyn Lock> {
        Box::new(ZkLock::new(self.servers.clone(), self.recipe, notices))
    }
}
