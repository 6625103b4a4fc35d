//! What a backend is: its servers, how they are set up, and the recipe by which a client acquires and releases.

use crate::protocol::Hello;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::Completion;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A way to lock. One file each; [`crate::registry`] names them all.
#[async_trait]
pub trait Backend: Send + Sync {
    /// As on the command line.
    fn name(&self) -> &'static str;
    /// One line for `fencepost list`.
    fn about(&self) -> &'static str;
    /// Whether an acquire gives a fencing token.
    fn has_token(&self) -> bool;
    /// Image of its servers; none for a backend without servers.
    fn image(&self) -> Option<&'static str>;
    /// How many servers it has when the user does not say.
    fn default_nodes(&self) -> usize;
    /// Refuses options that make no sense for it, in one sentence.
    fn check(&self, options: &Options) -> Result<(), String>;
    /// Refuses a TTL that it cannot keep, in one sentence.
    fn check_ttl(&self, _ttl: Duration) -> Result<(), String> {
        Ok(())
    }
    /// Port at which clients reach its servers.
    fn port(&self) -> u16;
    /// What server `index` of these nodes runs.
    fn service(&self, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service;
    /// Returns when the servers serve (elected, replicated, answering), or says which of them does not.
    /// Called after every service was started.
    async fn await_ready(&self, nodes: &[Arc<dyn Node>], options: &Options) -> Result<(), ClusterError>;
    /// Name and version of the server, as it tells them itself (`redis-server 7.0.15`).
    async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError>;
    /// Client side: connects to the servers. One session a client program.
    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, String>;
}

/// A client's connections to the lock service, shared by the processes that it hosts.
pub trait Session: Send + Sync {
    /// Among `token`, `validity`, `lost`, `extend`.
    fn can(&self) -> Vec<String>;
    /// The lock as one process sees it. `notices` takes what the library reports unasked.
    fn lock(&self, process: u64, notices: Notices) -> Box<dyn Lock>;
}

/// Where a lock reports that it was lost or renewed.
pub type Notices = tokio::sync::mpsc::UnboundedSender<crate::protocol::Notice>;

/// One process's use of the lock. Calls come one at a time.
///
/// Dropping it is the crash of that user: nothing is released, and whatever kept its lease alive stops.
#[async_trait]
pub trait Lock: Send {
    /// Tries to acquire for at most `timeout`. `Ok` holds what the history documents: `token`, `validity_ms`,
    /// `granted_by`. Every error is `Fail` (certainly not acquired) or `Info`, with the reason in a comment.
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion;
    /// Gives it back. `Ok` or not, the value says nothing about belief: the client program adds that.
    async fn release(&mut self, key: &str, timeout: Duration) -> Completion;
    /// By this process's own clock and what its library told it, asking nobody: is the lease still running?
    /// None where no validity is known (then only a `lost` notice ends the belief).
    fn still_valid(&self, key: &str) -> Option<bool>;
    /// The fencing token of the lock that is held.
    fn token(&self, key: &str) -> Option<u64>;
}

/// Options of all backends, as in run.toml and in the client's hello.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Options {
    /// Number of servers; none: the backend's default.
    pub nodes: Option<usize>,
    pub redis_persistence: Persistence,
}

impl Default for Options {
    fn default() -> Options {
        Options { nodes: None, redis_persistence: Persistence::None }
    }
}

/// What Redis writes to its append-only file, and when it calls fsync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Persistence {
    /// Neither append-only file nor snapshots.
    #[default]
    None,
    Everysec,
    Always,
}
