//! Where a client is checked: running servers, and places to start clients in.

use anyhow::Result;
use async_trait::async_trait;
use fencepost_history::{Lease, LockKind, Refusal};
use fencepost_locks::protocol::Hello;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

pub(super) const CLIENTS: usize = 3;

/// What is known of the lock before its client says anything.
#[derive(Clone, Debug)]
pub(super) struct LockTerms {
    pub(super) kind: LockKind,
    pub(super) lease: Lease,
    pub(super) ttl: Duration,
    /// How much longer than its TTL the lock may stay taken: the library's rounding, and the service's delay.
    pub(super) lag: Duration,
    pub(super) start_time: Duration,
}

pub(super) struct ServerStreams {
    pub(super) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) stdout: Box<dyn AsyncRead + Send + Unpin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServersState {
    /// Stopped by a signal: the kernel accepts connections, and nothing is answered.
    Paused,
    /// Going on after a pause, and ready.
    Resumed,
    Killed,
}

#[async_trait]
pub(super) trait TestServers: Send + Sync {
    fn terms(&self) -> &LockTerms;

    /// Holds the announced words against what is known of the lock. Errors: which word does not fit.
    fn check_announced(&self, can: &[String]) -> Result<(), Refusal>;

    /// Starts a client in this place (of [`CLIENTS`]), and gives the hello to send.
    async fn start_client(&self, place: usize) -> Result<(Hello, ServerStreams)>;

    async fn kill_client(&self, place: usize, pid: i32) -> Result<()>;

    /// The sentence about the program that ended, with its last line of standard error, or its limit.
    async fn explained(&self, place: usize, sentence: String) -> String;

    async fn set_state(&self, state: ServersState) -> Result<()>;
}
