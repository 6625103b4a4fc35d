//! `zookeeper-ephemeral` and `zookeeper-sequential`.

use super::attempt::ZnodeKind;
use super::lock::ZkLock;
use super::servers::ZkServers;
use super::service::ZOOKEEPER;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session};
use async_trait::async_trait;
use fencepost_history::{Lease, LockKind};

/// What every lock on ZooKeeper can do: its session is kept alive, and its end is noticed.
pub(super) const SESSION_BOUND: Capabilities = Capabilities {
    token: true,
    validity: true,
    loss_notice: true,
    renewal: true,
    lease: Lease::Session,
    ..Capabilities::NONE
};

pub(super) const CLAIMS: &str = "exclusion of sessions, ownership, progress, availability with a majority up, fencing; \
    a holder that overstays its session is kept out by its token";

pub(super) static EPHEMERAL: LockDefinition = LockDefinition {
    name: "zookeeper-ephemeral",
    about: "one ephemeral znode: the client that creates it holds the lock, the others watch it; its czxid is the token",
    claims: CLAIMS,
    service: &ZOOKEEPER,
    recipe: &ZnodeRecipe(ZnodeKind::Ephemeral),
    options: &[],
    capabilities: |_| SESSION_BOUND,
};

pub(super) static SEQUENTIAL: LockDefinition = LockDefinition {
    name: "zookeeper-sequential",
    about: "Curator's recipe: a queue of ephemeral sequential znodes, each watches its predecessor; czxid is the token",
    claims: CLAIMS,
    service: &ZOOKEEPER,
    recipe: &ZnodeRecipe(ZnodeKind::Sequential),
    options: &[],
    capabilities: |_| SESSION_BOUND,
};

/// Source: ZooKeeper's "Recipes and Solutions", section "Leader Election"; Curator's `LeaderLatch`.
pub(super) static ELECTION: LockDefinition = LockDefinition {
    name: "zookeeper-election",
    about: "the recipe for elections: an ephemeral sequential znode for each candidate, the lowest leads; its czxid is the term",
    options: &["unwatched"],
    capabilities: |_| Capabilities { kind: LockKind::Election, leader: true, ..SESSION_BOUND },
    ..SEQUENTIAL
};

struct ZnodeRecipe(ZnodeKind);

#[async_trait]
impl Recipe for ZnodeRecipe {
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        // Ephemeral znodes belong to sessions, so each process has its own; only the servers are shared.
        let (servers, kind, options) = (ZkServers::of(hello).await?, self.0, hello.options()?);
        let unwatched = options.unwatched;
        Ok(Box::new(move |_, notices| {
            Box::new(ZkLock::new(servers.clone(), kind, notices.unwatched(unwatched)))
        }))
    }
}
