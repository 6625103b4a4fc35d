//! What a backend is: its servers, how they are set up, and the recipe by which a client acquires and releases.

use crate::notices::Notices;
use crate::options::Options;
use crate::protocol::{Hello, Server};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use fencepost_history::{Completion, ErrorCode};
use fencepost_storage::Sequencers;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A way to lock. One file each; [`crate::registry`] names them all.
#[async_trait]
pub trait Backend: Send + Sync {
    /// As on the command line.
    fn name(&self) -> &'static str;
    /// One line for `fencepost list`.
    fn about(&self) -> &'static str;
    /// What it promises and under which conditions, for `fencepost list`: a line of words that names promises as the
    /// checkers do (exclusion, ownership, progress, availability, fencing).
    fn promises(&self) -> &'static str;
    /// Whether an acquire gives a fencing token, with these options.
    fn has_token(&self, _options: &Options) -> bool {
        false
    }
    /// Whether an acquire gives a value that no other grant has.
    fn has_unique_value(&self, _options: &Options) -> bool {
        false
    }
    /// Whether an acquire gives a sequencer, and the service can be asked whether it is still valid.
    fn has_sequencer(&self) -> bool {
        false
    }
    /// Whether the lock can also be taken shared, by many who only read.
    fn has_shared_mode(&self) -> bool {
        false
    }
    /// How much longer than its TTL the lock may stay taken after its holder was lost.
    fn stays_taken(&self, _options: &Options) -> Duration {
        Duration::ZERO
    }
    /// Image of its servers; none for a backend without servers.
    fn image(&self) -> Option<&'static str>;
    /// How many servers it has when the user does not say.
    fn default_nodes(&self) -> usize;
    /// Options of its own that it understands, as on the command line without the dashes (`redis-persistence`).
    /// Others are refused; `nodes` is understood by all.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }
    /// Whether its clients have each other killed, or cut off from the storage: nodes then have a fencer
    /// ([`crate::run_fencer`]), and a run goes on without a client that was killed.
    fn fences_clients(&self) -> bool {
        false
    }
    /// Whether lock and data are in the same place: processes then read and write by [`Lock::read`] and [`Lock::write`],
    /// and the run has neither storage nor guard.
    fn own_storage(&self) -> bool {
        false
    }
    /// Refuses values that make no sense for it, or contradict each other, in one sentence.
    fn check(&self, options: &Options) -> Result<(), String>;
    /// Refuses a TTL that it cannot keep, in one sentence.
    fn check_ttl(&self, _ttl: Duration) -> Result<(), String> {
        Ok(())
    }
    /// Port at which clients reach its servers.
    fn port(&self) -> u16;
    /// What server `index` of these nodes runs.
    fn service(&self, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service;
    /// By which mechanisms the clocks of its servers can be moved, the one that suits their program best first: for a JVM
    /// faketime, then vdso.
    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        &[ClockMechanism::Vdso]
    }
    /// Returns when the servers serve (elected, replicated, answering), or says which of them does not.
    /// Called after every service was started.
    async fn await_ready(&self, nodes: &[Arc<dyn Node>], options: &Options) -> Result<(), ClusterError>;
    /// Name and version of the server, as it tells them itself (`redis-server 7.0.15`).
    async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError>;
    /// Whether one of its servers leads at a time and the others follow it. Where not, each server stands for itself,
    /// and faults that are meant for a leader strike a drawn one.
    fn has_leader(&self) -> bool {
        false
    }
    /// The place, among these nodes, of the server that leads now, as the servers themselves say; where they disagree,
    /// the one with the newest term. None while nobody leads.
    async fn leader(
        &self,
        _nodes: &[Arc<dyn Node>],
        _options: &Options,
    ) -> Result<Option<usize>, ClusterError> {
        Ok(None)
    }
    /// Asks the service to let another server lead than `from`, without harming `from`. Returns when the service has
    /// taken the order; whether it has been carried out shows in [`Backend::leader`].
    async fn hand_over(
        &self,
        _nodes: &[Arc<dyn Node>],
        _from: usize,
        _options: &Options,
    ) -> Result<(), ClusterError> {
        Err(ClusterError::new(format!("{} cannot be told to change its leader", self.name())))
    }
    /// Client side: connects to the servers. One session a client program.
    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, String>;
    /// Storage side: connects to the servers, to ask them for sequencers.
    async fn sequencers(&self, _servers: &[Server]) -> Result<Box<dyn Sequencers>, String> {
        Err(format!("{} knows no sequencers", self.name()))
    }
}

/// A client's connections to the lock service, shared by the processes that it hosts.
pub trait Session: Send + Sync {
    /// Among `token`, `validity`, `lost`, `extend`.
    fn can(&self) -> Vec<String>;
    /// The lock as one process sees it. `notices` takes what the library reports unasked.
    fn lock(&self, process: u64, notices: Notices) -> Box<dyn Lock>;
}

/// One process's use of the lock. Calls come one at a time.
///
/// Dropping it is the crash of that user: nothing is released, and whatever kept its lease alive stops.
#[async_trait]
pub trait Lock: Send {
    /// Tries to acquire for at most `timeout`. `Ok` holds what the history documents: `token`, `validity_ms`,
    /// `granted_by`. Every error is `Fail` (certainly not acquired) or `Info`, with the reason in a comment.
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion;
    /// As [`Lock::acquire`], but shared with others who ask for the same. Only for backends that
    /// [have it](Backend::has_shared_mode).
    async fn acquire_shared(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Completion {
        // Nothing was begun.
        Completion::fail(ErrorCode::BadCommand, "this lock has no shared mode")
    }
    /// Gives it back. `Ok` or not, the value says nothing about belief: the client program adds that.
    async fn release(&mut self, key: &str, timeout: Duration) -> Completion;
    /// By this process's own clock and what its library told it, asking nobody: is the lease still running?
    /// None where no validity is known (then only a `lost` notice ends the belief).
    fn still_valid(&self, key: &str) -> Option<bool>;
    /// The fencing token of the lock that is held.
    fn token(&self, key: &str) -> Option<u64>;
    /// A value that no other grant has, of the lock that is held.
    fn unique_value(&self, _key: &str) -> Option<String> {
        None
    }
    /// Words by which the lock service can tell later whether this very grant still stands.
    fn sequencer(&self, _key: &str) -> Option<String> {
        None
    }
    /// How many notifications of the lock service woke this process during its latest acquire; none where the recipe
    /// waits for none.
    fn wakeups(&self) -> Option<u64> {
        None
    }
    /// Reads the value of `key` under the lock; without the lock, as it is. Only for a backend that has its
    /// [own storage](Backend::own_storage).
    async fn read(&mut self, _key: &str, _timeout: Duration) -> Completion {
        // There is nowhere to send it.
        Completion::fail(ErrorCode::NoStorage, "this backend keeps no data")
    }
    /// Sets the value of `key`, which ends the hold: it is `Ok` once it is durable, and for that the transaction that
    /// held the lock is over. Only for a backend that has its [own storage](Backend::own_storage).
    async fn write(&mut self, _key: &str, _value: &Value, _timeout: Duration) -> Completion {
        // There is nowhere to send it.
        Completion::fail(ErrorCode::NoStorage, "this backend keeps no data")
    }
}
