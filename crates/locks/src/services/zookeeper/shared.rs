//! `zookeeper-read-write` and `zookeeper-semaphore`: the queue of `zookeeper-sequential`, with readers that
//! wait for writers only, and permits. Sources: ZooKeeper's "Recipes and Solutions", section "Shared Locks";
//! Apache Curator's `InterProcessReadWriteLock` and `InterProcessSemaphoreV2`.

use super::attempt::ZnodeKind;
use super::decisions::Turn;
use super::lock::ZkLock;
use super::recipe::SESSION_BOUND;
use super::servers::ZkServers;
use super::service::ZOOKEEPER;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::options::Options;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session, Share};
use async_trait::async_trait;
use fencepost_history::LockKind;
use std::sync::Arc;

const CLAIMS: &str =
    "exclusion of sessions, ownership, progress, availability with a majority up; no fencing";

pub(super) static READ_WRITE: LockDefinition = LockDefinition {
    name: "zookeeper-read-write",
    about: "the recipe for shared locks: a queue of znodes in which a reader waits for the writers before it, a writer for all",
    claims: CLAIMS,
    service: &ZOOKEEPER,
    recipe: &QueueRecipe(|share, options| match share {
        None => Some(Turn::Alone),
        Some(Share::Reader) if options.nearest_only => Some(Turn::CarelessReader),
        Some(Share::Reader) => Some(Turn::Reader),
        Some(Share::Permit { .. }) => None,
    }),
    options: &["nearest-only"],
    capabilities: |_| Capabilities { token: false, kind: LockKind::ReadWrite, ..SESSION_BOUND },
};

pub(super) static SEMAPHORE: LockDefinition = LockDefinition {
    name: "zookeeper-semaphore",
    about: "a semaphore: a queue of znodes, whose first znodes hold the permits",
    claims: CLAIMS,
    service: &ZOOKEEPER,
    recipe: &QueueRecipe(|share, options| match share {
        Some(Share::Permit { of }) if options.count_first => Some(Turn::CountedBefore { of }),
        Some(Share::Permit { of }) => Some(Turn::Permit { of }),
        _ => None,
    }),
    options: &["count-first"],
    capabilities: |_| Capabilities { token: false, kind: LockKind::Semaphore, ..SESSION_BOUND },
};

struct QueueRecipe(fn(Option<Share>, &Options) -> Option<Turn>);

#[async_trait]
impl Recipe for QueueRecipe {
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let (servers, options, turn) = (ZkServers::of(hello).await?, Arc::new(hello.options()?), self.0);
        Ok(Box::new(move |_, notices| {
            let lock = ZkLock::new(servers.clone(), ZnodeKind::Sequential, notices);
            Box::new(lock.shared(turn, options.clone()))
        }))
    }
}
