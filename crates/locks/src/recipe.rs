//! What a recipe is: how a client connects, acquires, renews and releases.

use crate::access::Access;
use crate::client::client_program::ClientProgram;
use crate::error::{ClientError, OptionError};
use crate::notices::Notices;
use crate::options::Options;
use crate::protocol::{Hello, Server};
use async_trait::async_trait;
use fencepost_history::{AcquireArguments, Completion, ErrorCode, LockKind, Mode};
use fencepost_storage::{Credentials, Sequencers};
use serde_json::Value;
use std::time::Duration;

/// The client's side of a lock.
#[async_trait]
pub trait Recipe: Send + Sync {
    /// Refuses values that make no sense, or contradict each other. The error says what is possible.
    fn check(&self, _options: &Options) -> Result<(), OptionError> {
        Ok(())
    }
    /// Refuses a TTL that it cannot keep. The error says which is possible.
    fn check_ttl(&self, _ttl: Duration) -> Result<(), OptionError> {
        Ok(())
    }
    /// The program that is the client, where that is not Fencepost's own.
    fn program(&self) -> Option<&ClientProgram> {
        None
    }
    /// Client side: connects to the servers. One session a client program.
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError>;
    /// Storage side: connects to the servers, to ask them for sequencers; none for a lock without sequencers.
    async fn sequencers(
        &self,
        _servers: &[Server],
        _access: Option<&Access>,
    ) -> Result<Option<Box<dyn Sequencers>>, ClientError> {
        Ok(None)
    }
}

/// A client's connections, shared by its processes: makes a process's lock, and takes its notices.
pub type Session = Box<dyn Fn(u64, Notices) -> Box<dyn Lock> + Send + Sync>;

/// What of a lock a process asks for, where it does not ask for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// To read beside other readers.
    Reader,
    /// One of so many permits.
    Permit { of: u32 },
}

impl Share {
    /// What the value of an acquire of so many names asks for; none: all of the lock. Errors: a lock of this
    /// kind cannot be held so.
    pub(crate) fn asked(
        asked: &AcquireArguments,
        names: usize,
        kind: LockKind,
    ) -> Result<Option<Share>, Completion> {
        let (share, is_had) = match (asked.mode.unwrap_or_default(), asked.capacity) {
            (Mode::Shared, _) => (Some(Share::Reader), kind == LockKind::ReadWrite),
            (Mode::Exclusive, Some(of)) => (Some(Share::Permit { of }), kind == LockKind::Semaphore),
            (Mode::Exclusive, None) if names > 1 => (None, kind == LockKind::Several),
            (Mode::Exclusive, None) => (None, kind != LockKind::Semaphore),
        };
        if is_had { Ok(share) } else { Err(no_such_share()) }
    }
}

/// Of an acquire that the kind of the lock does not have.
pub(crate) fn no_such_share() -> Completion {
    Completion::fail(ErrorCode::BadCommand, "this lock cannot be held so: see the kind of the lock")
}

/// One process's use of the lock, one call at a time. A drop is its crash: no release, no more renewals.
#[async_trait]
pub trait Lock: Send {
    /// Tries to acquire for at most `timeout`. `Ok` holds what the history documents: `token`, `validity_ms`,
    /// `granted_by`. Every error is `Fail` (certainly not acquired) or `Info`, with the reason in a comment.
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion;
    /// [`Lock::acquire`] of a share that its [kind](crate::Capabilities::kind) has; none: all of the lock.
    async fn acquire_share(
        &mut self,
        key: &str,
        _share: Option<Share>,
        ttl: Duration,
        timeout: Duration,
    ) -> Completion {
        self.acquire(key, ttl, timeout).await
    }
    /// [`Lock::acquire`] of several names at once, all or none. Only of a lock on several names.
    async fn acquire_all(&mut self, _names: &[&str], _ttl: Duration, _timeout: Duration) -> Completion {
        no_such_share()
    }
    async fn release_all(&mut self, _names: &[&str], _timeout: Duration) -> Completion {
        no_such_share()
    }
    /// Lets a lock that is held last for `ttl` from now on; `Fail` with [`ErrorCode::NotHeld`] where it was
    /// no longer this process's. Only of a lock that has it ([`crate::Capabilities::prolong`]).
    async fn prolong(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Completion {
        Completion::fail(ErrorCode::BadCommand, "this lock cannot be prolonged")
    }
    /// Acquires once more a reentrant lock; [`Lock::leave`] releases it; [`ErrorCode::NotHeld`]: it was lost.
    async fn reenter(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Completion {
        no_such_share()
    }
    /// Releases a lock once that its holder still holds. Only of a reentrant lock.
    async fn leave(&mut self, _key: &str, _timeout: Duration) -> Completion {
        no_such_share()
    }
    /// The process that leads, as far as the service knows, or null. Only of an election that has it
    /// ([`crate::Capabilities::leader`]). It changes nothing, so every error is `Fail`.
    async fn leader(&mut self, _key: &str, _timeout: Duration) -> Completion {
        Completion::fail(ErrorCode::BadCommand, "this lock cannot say who leads")
    }
    /// Releases the lock. The client program adds what the process believed.
    async fn release(&mut self, key: &str, timeout: Duration) -> Completion;
    /// Whether the lease still runs, by this process's own clock and the notices of its library, without a
    /// request. None where no validity is known (then only a `lost` notice ends the belief).
    fn still_valid(&self, _key: &str) -> Option<bool> {
        None
    }
    /// What a storage can know this very grant by: its fencing token, a value that no other grant has, and
    /// words by which the lock service can tell later whether it still stands. The process is left out.
    fn credentials(&self, _key: &str) -> Credentials {
        Credentials::default()
    }
    /// How many notifications woke this process during its latest acquire; none if the recipe has none.
    fn wakeups(&self) -> Option<u64> {
        None
    }
    /// Reads `key`, under the lock if held. Only with its [own storage](crate::Capabilities::own_storage).
    async fn read(&mut self, _key: &str, _timeout: Duration) -> Completion {
        Completion::fail(ErrorCode::NoStorage, "this lock keeps no data")
    }
    /// Sets `key`, which ends the hold; `Ok` once it is durable. Only with an own storage.
    async fn write(&mut self, _key: &str, _value: &Value, _timeout: Duration) -> Completion {
        Completion::fail(ErrorCode::NoStorage, "this lock keeps no data")
    }
}
