//! Where a client is checked: running servers, and places to start clients in.

use anyhow::Result;
use async_trait::async_trait;
use fencepost_history::{Lease, Refusal};
use fencepost_locks::protocol::Hello;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

pub(super) const CLIENTS: usize = 3;

/// What is known of the lock before its client says anything.
#[derive(Clone, Debug)]
pub(super) struct LockTerms {
    pub(super) lease: Lease,
    pub(super) ttl: Duration,
    /// How much longer than its TTL the lock may stay taken: the library's rounding, and the service's delay.
    pub(super) lag: Duration,
    /// The longest time until the hello is answered.
    pub(super) start_time: Duration,
}

/// The standard streams of a client program.
pub(super) struct Streams {
    pub(super) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) stdout: Box<dyn AsyncRead + Send + Unpin>,
}

/// What is done to all servers at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServersState {
    /// Stopped by a signal: the kernel accepts connections, and nothing is answered.
    Paused,
    /// Going on after a pause, and ready.
    Resumed,
    /// Killed: connections are refused.
    Killed,
}

#[async_trait]
pub(super) trait TestServers: Send + Sync {
    fn terms(&self) -> &LockTerms;

    /// Holds the words that a client announced against what is known of the lock.
    ///
    /// # Errors
    /// Which word does not fit.
    fn check_announced(&self, can: &[String]) -> Result<(), Refusal>;

    /// Starts a client program in this place (of [`CLIENTS`]), and gives the hello that it is to be sent.
    ///
    /// # Errors
    /// It cannot be started.
    async fn start_client(&self, place: usize) -> Result<(Hello, Streams)>;

    async fn kill_client(&self, place: usize, pid: i32) -> Result<()>;

    /// The sentence about the program in this place that ended, with the last line that it wrote to standard
    /// error; where it was ended because it used too much, that.
    async fn explained(&self, place: usize, sentence: String) -> String;

    async fn set_state(&self, state: ServersState) -> Result<()>;
}
