//! `zookeeper-ephemeral`, `zookeeper-sequential`, `zookeeper-election`; `zookeeper-read-write` and
//! `zookeeper-semaphore`: the queue of `zookeeper-sequential`, with readers that wait for writers only, and
//! permits. Sources: ZooKeeper's "Recipes and Solutions", section "Shared Locks"; Apache Curator's
//! `InterProcessReadWriteLock` and `InterProcessSemaphoreV2`.

use super::attempt::ZnodeKind;
use super::decisions::Turn;
use super::lock::{Turns, ZkLock};
use super::servers::ZkServers;
use super::service::ZOOKEEPER;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session, Share};
use async_trait::async_trait;
use fencepost_history::{Lease, LockKind};
use std::sync::Arc;

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
    recipe: &ZnodeRecipe(ZnodeKind::Ephemeral, None),
    options: &[],
    capabilities: |_| SESSION_BOUND,
};

pub(super) static SEQUENTIAL: LockDefinition = LockDefinition {
    name: "zookeeper-sequential",
    about: "Curator's recipe: a queue of ephemeral sequential znodes, each watches its predecessor; czxid is the token",
    claims: CLAIMS,
    service: &ZOOKEEPER,
    recipe: &ZnodeRecipe(ZnodeKind::Sequential, None),
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

const CLAIMS_OF_SHARED: &str =
    "exclusion of sessions, ownership, progress, availability with a majority up; no fencing";

pub(super) static READ_WRITE: LockDefinition = LockDefinition {
    name: "zookeeper-read-write",
    about: "the recipe for shared locks: a queue of znodes in which a reader waits for the writers before it, a writer for all",
    claims: CLAIMS_OF_SHARED,
    service: &ZOOKEEPER,
    recipe: &ZnodeRecipe(
        ZnodeKind::Sequential,
        Some(|share, options| match share {
            None => Turn::Alone,
            Some(_) if options.nearest_only => Turn::CarelessReader,
            Some(_) => Turn::Reader,
        }),
    ),
    options: &["nearest-only"],
    capabilities: |_| Capabilities { token: false, kind: LockKind::ReadWrite, ..SESSION_BOUND },
};

pub(super) static SEMAPHORE: LockDefinition = LockDefinition {
    name: "zookeeper-semaphore",
    about: "a semaphore: a queue of znodes, whose first znodes hold the permits",
    claims: CLAIMS_OF_SHARED,
    service: &ZOOKEEPER,
    recipe: &ZnodeRecipe(
        ZnodeKind::Sequential,
        Some(|share, options| match share {
            Some(Share::Permit { of }) if options.count_first => Turn::CountedBefore { of },
            Some(Share::Permit { of }) => Turn::Permit { of },
            _ => Turn::Alone,
        }),
    ),
    options: &["count-first"],
    capabilities: |_| Capabilities { token: false, kind: LockKind::Semaphore, ..SESSION_BOUND },
};

/// The kind of its znodes, and for whom one waits where the lock has shares.
struct ZnodeRecipe(ZnodeKind, Option<Turns>);

#[async_trait]
impl Recipe for ZnodeRecipe {
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        // Ephemeral znodes belong to sessions, so each process has its own; only the servers are shared.
        let (servers, options) = (ZkServers::of(hello).await?, Arc::new(hello.options()?));
        let ZnodeRecipe(kind, turns) = *self;
        Ok(Box::new(move |_, notices| {
            let lock = ZkLock::new(servers.clone(), kind, notices.unwatched(options.unwatched));
            Box::new(match turns {
                Some(turns) => lock.shared(turns, options.clone()),
                None => lock,
            })
        }))
    }
}
