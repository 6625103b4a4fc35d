//! `canary-nolock`: no lock at all. Every acquire succeeds at once.
//!
//! It is there to be caught: a checker that does not find a violation in its histories finds none anywhere.
//! `exclusion` must see overlapping holds, `lost-updates` must see overwritten increments, and `fencing` must
//! see a token that does not grow. For the last one, and so that the guard `token` can be used with it (and
//! protects nothing, since no token is ever lower than another), each acquire hands out the token 1.

use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::{ClientError, OptionError, bad_option};
use crate::options::Options;
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use crate::service::LockService;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::{Completion, Grant, Lease};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const TOKEN: i64 = 1;

static CANARY: LockDefinition = LockDefinition {
    name: "canary-nolock",
    about: "no lock: every acquire succeeds at once with token 1; it must be caught",
    claims: "nothing: it must be caught",
    service: &NoServers,
    recipe: &AlwaysGranted,
    options: &[],
    capabilities: |_| Capabilities { token: true, lease: Lease::None, ..Capabilities::NONE },
};

/// The locks without servers: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&CANARY];

/// A service that is nothing: no image, no servers.
pub(crate) struct NoServers;

#[async_trait]
impl LockService for NoServers {
    fn name(&self) -> &'static str {
        "none"
    }

    fn default_nodes(&self) -> usize {
        0
    }

    fn check(&self, options: &Options) -> Result<(), OptionError> {
        match options.nodes {
            None | Some(0) => Ok(()),
            Some(_) => bad_option("nodes", "this lock has no servers; leave --nodes out".to_owned()),
        }
    }

    fn port(&self) -> u16 {
        0
    }

    fn start_command(&self, _index: usize, _nodes: &[Arc<dyn Node>], _options: &Options) -> Service {
        unreachable!("there are no servers to start")
    }

    async fn await_ready(&self, _nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn version(&self, _node: &Arc<dyn Node>, _all: &[Arc<dyn Node>]) -> Result<String, ClusterError> {
        Ok("none".to_owned())
    }
}

struct AlwaysGranted;

#[async_trait]
impl Recipe for AlwaysGranted {
    async fn connect(&self, _hello: &Hello) -> Result<Session, ClientError> {
        Ok(Box::new(|_, _| Box::new(CanaryLock)))
    }
}

struct CanaryLock;

#[async_trait]
impl Lock for CanaryLock {
    async fn acquire(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Completion {
        Completion::ok(Grant { token: Some(TOKEN), ..Grant::default() })
    }

    async fn release(&mut self, _key: &str, _timeout: Duration) -> Completion {
        Completion::Ok(Value::Null)
    }

    fn token(&self, _key: &str) -> Option<u64> {
        Some(TOKEN.unsigned_abs())
    }
}
