//! What one process has on etcd, whatever its recipe: a session, and how it ends.

use super::api::TxnRequest;
use super::members::{Answered, CallError, Members};
use super::session::LeaseSession;
use crate::notices::Notices;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, OperationError, Stream};
use rand::RngExt;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Of an acquire's time-out, this part is kept for taking back what it did.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(500);
/// Rest before a new session is tried, in microseconds.
const RETRY_DELAY_US: std::ops::RangeInclusive<u64> = 5_000..=20_000;

/// A process on etcd.
pub(crate) struct User {
    pub(super) members: Arc<Members>,
    notices: Notices,
    random: Stream,
    pub(super) session: Option<LeaseSession>,
}

/// How long the leases of a session last.
#[derive(Clone, Copy)]
pub(super) struct LeaseTimes {
    pub(super) ttl: Duration,
    /// Of a second lease that is kept alive together with the first.
    pub(super) companion: Option<Duration>,
}

/// How one attempt to acquire ended.
pub(super) enum Attempted<H> {
    Held(H),
    /// It is another's, and nothing of the attempt is left or can come.
    Taken(OperationError),
    /// Something of it may be left, or may come, as long as the session lasts.
    Unclear(OperationError),
}

/// One way to acquire under a session.
#[async_trait]
pub(super) trait Attempt: Sync {
    type Held: Send;
    /// Whether it is given up when the session is lost meanwhile.
    fn heeds_loss(&self) -> bool {
        true
    }
    /// Tries until `until`; what it takes back itself, it may take back until `deadline`.
    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        deadline: Instant,
    ) -> Attempted<Self::Held>;
}

impl User {
    pub(super) fn new(members: Arc<Members>, notices: Notices, random: Stream) -> User {
        User { members, notices, random, session: None }
    }

    /// Sees to it that there is a session that lives on these terms.
    async fn enter(&mut self, terms: LeaseTimes, deadline: Instant) -> Result<(), CallError> {
        if self.session.as_ref().is_some_and(|session| session.ttl == terms.ttl && session.lost().is_none()) {
            return Ok(());
        }
        self.session = None;
        let notices = self.notices.clone();
        let companion = terms.companion;
        self.session =
            Some(LeaseSession::open(&self.members, terms.ttl, companion, notices, deadline).await?);
        Ok(())
    }

    /// Attempts to acquire until the lock is held, or is another's, or time is up. What an attempt leaves goes with its
    /// session: that is ended, and a new one is opened for the next attempt.
    pub(super) async fn acquire<A: Attempt>(
        &mut self,
        terms: LeaseTimes,
        timeout: Duration,
        attempt: &A,
    ) -> Result<A::Held, Completion> {
        let deadline = Instant::now() + timeout;
        let until = deadline - (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        loop {
            if let Err(error) = self.enter(terms, until).await {
                // No session, so no key was even asked for. A lease that was granted unseen ends by itself.
                return Err(Completion::Fail(error.why()));
            }
            let Some(session) = &self.session else { unreachable!("a session was just opened") };
            let ended = tokio::select! {
                ended = attempt.attempt(&self.members, session, until, deadline) => ended,
                // Whatever is under way is dropped, answered or not.
                reason = session.until_lost(), if attempt.heeds_loss() => Attempted::Unclear(ErrorCode::SessionExpired.error(reason)),
            };
            let why = match ended {
                Attempted::Held(held) => return Ok(held),
                Attempted::Taken(why) => return Err(Completion::Fail(why)),
                Attempted::Unclear(why) => why,
            };
            if !self.end_session(deadline).await {
                // Our key may be there, or may come yet, until its lease has run out: unknown.
                return Err(Completion::Info(why));
            }
            if !self.rest(until).await {
                return Err(Completion::Fail(why));
            }
        }
    }

    /// Rests a little. False, at once, if there is no time for another try.
    async fn rest(&mut self, until: Instant) -> bool {
        let delay = Duration::from_micros(self.random.random_range(RETRY_DELAY_US));
        if Instant::now() + delay >= until {
            return false;
        }
        sleep(delay).await;
        true
    }

    /// Gives up the session and ends its leases with all their keys. True if they certainly are ended.
    async fn end_session(&mut self, deadline: Instant) -> bool {
        let Some(session) = self.session.take() else { return false };
        self.end(&session, deadline).await
    }

    async fn end(&self, session: &LeaseSession, deadline: Instant) -> bool {
        let mut ended = true;
        for lease in session.leases() {
            ended &= self.revoke(lease, deadline).await;
        }
        ended
    }

    /// Ends a lease with all its keys. True if it certainly is ended.
    async fn revoke(&self, lease: i64, deadline: Instant) -> bool {
        let revoked =
            self.members.call(deadline, |client| async move { client.lease_revoke(lease).await }).await;
        match revoked {
            Ok(_) => true,
            Err(CallError::Refused { lease_not_found, .. }) => lease_not_found,
            Err(CallError::Unanswered(_)) => false,
        }
    }

    /// Gives a lock back by a transaction that deletes its keys if they are still ours. `doubt`: an attempt to create
    /// them was not answered, and may still create them after they were deleted.
    pub(super) async fn release(
        &mut self,
        key: &str,
        lease: i64,
        doubt: bool,
        txn: TxnRequest,
        deadline: Instant,
    ) -> Completion {
        let session = self.session.take_if(|session| session.lease == lease && session.lost().is_none());
        if let Some(session) = &session {
            session.let_go(key);
        }
        // A request that created the key twice may still be under way and create it a third time: only the end of its
        // lease is certain. The session goes with it (it is dropped here).
        if let Some(session) = session.as_ref().filter(|_| doubt) {
            return match self.end(session, deadline).await {
                true => Completion::Ok(Value::Null),
                // A write without an answer.
                false => Completion::info(ErrorCode::Timeout, "the lease could not be ended"),
            };
        }
        let deleted = self
            .members
            .call(deadline, |client| {
                let txn = txn.clone();
                async move { client.txn(txn).await }
            })
            .await;
        match deleted {
            Ok(Answered { answer, doubt }) => {
                // Answered: the key is gone, so the session can be used again.
                self.session = session;
                match (answer.succeeded, doubt) {
                    (true, _) => Completion::Ok(Value::Null),
                    // It was executed and found nothing: the lease had run out.
                    (false, false) => {
                        Completion::fail(ErrorCode::NotHeld, "the lock was no longer this process's")
                    }
                    // The key is gone; whether an earlier attempt deleted it or the end of the lease, is unknown.
                    (false, true) => Completion::info(
                        ErrorCode::Timeout,
                        "an attempt was not answered, and the key is gone",
                    ),
                }
            }
            // Not executed: the key stays until the session ends, which is now.
            Err(CallError::Refused { why, doubt: false, .. }) => Completion::Fail(why),
            // A write without an answer. The session is dropped, so that the key does not outlive its lease.
            Err(error) => Completion::Info(error.why()),
        }
    }

    /// By this process's own clock: does the lease of this number still run?
    pub(super) fn still_runs(&self, lease: i64) -> bool {
        let session = self.session.as_ref().filter(|session| session.lost().is_none());
        session.is_some_and(|session| session.lease == lease && Instant::now() < session.valid_until())
    }
}
