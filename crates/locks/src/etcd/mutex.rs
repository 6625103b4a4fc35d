//! One process's mutex: which session it uses, and what becomes of its keys.
//!
//! Source: `client/v3/concurrency/mutex.go` and `key.go` of etcd.

use super::members::{Answered, CallError, Members};
use super::queue::{Failure, Taken, prefix, take};
use super::session::LeaseSession;
use crate::backend::{Lock, Notices};
use crate::held::millis_until;
use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use fencepost_history::{Completion, Stream};
use rand::Rng;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Of an acquire's time-out, this part is kept for taking its key back.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(500);
/// Rest before a new session is tried, in microseconds.
const RETRY_DELAY_US: std::ops::RangeInclusive<u64> = 5_000..=20_000;

pub(super) struct EtcdLock {
    members: Arc<Members>,
    process: u64,
    notices: Notices,
    random: Stream,
    session: Option<LeaseSession>,
    held: Vec<Held>,
}

struct Held {
    key: String,
    /// Its key in etcd.
    path: String,
    create_revision: i64,
    lease: i64,
    /// An attempt to create the key was not answered, and may still create it after it was deleted.
    doubt: bool,
}

impl EtcdLock {
    pub(super) fn new(members: Arc<Members>, process: u64, notices: Notices, random: Stream) -> EtcdLock {
        EtcdLock { members, process, notices, random, session: None, held: Vec::new() }
    }

    /// The session, a new one where there is none that lives with this TTL.
    async fn session(&mut self, ttl: Duration, deadline: Instant) -> Result<(), CallError> {
        if self.session.as_ref().is_some_and(|session| session.ttl == ttl && session.lost().is_none()) {
            return Ok(());
        }
        self.session = None;
        let notices = self.notices.clone();
        self.session = Some(LeaseSession::open(&self.members, ttl, self.process, notices, deadline).await?);
        Ok(())
    }

    /// Takes back what a failed acquire may have left. True if it is certain that nothing is left or can come.
    async fn clear_away(&mut self, path: &str, failure: &Failure, deadline: Instant) -> bool {
        let Some(session) = &self.session else { return false };
        if failure.lease_is_gone {
            self.session = None;
            return true;
        }
        if !failure.doubt && session.lost().is_none() {
            let deleted = self
                .members
                .call(deadline, |mut client| async move { client.delete(path, None).await })
                .await;
            if deleted.is_ok() {
                return true;
            }
        }
        // A request to create the key may still be under way, or the deletion is uncertain. Without its lease the
        // key cannot exist: end the lease; and if that is not answered either, let it run out.
        let lease = session.lease;
        self.session = None;
        self.revoke(lease, deadline).await
    }

    /// Ends a lease with all its keys. True if it certainly is ended.
    async fn revoke(&self, lease: i64, deadline: Instant) -> bool {
        let revoked =
            self.members.call(deadline, |mut client| async move { client.lease_revoke(lease).await }).await;
        match revoked {
            Ok(_) => true,
            Err(CallError::Refused { lease_not_found, .. }) => lease_not_found,
            Err(CallError::Unanswered(_)) => false,
        }
    }
}

#[async_trait]
impl Lock for EtcdLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let try_until = deadline - (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        loop {
            if let Err(error) = self.session(ttl, try_until).await {
                // No session, so no key was even asked for. A lease that was granted unseen ends by itself.
                return Completion::Fail(error.why());
            }
            let Some(session) = &self.session else { unreachable!("a session was just opened") };
            let prefix = prefix(key);
            let path = format!("{prefix}{:x}", session.lease);
            let failure = tokio::select! {
                taken = take(&self.members, session, &prefix, &path, try_until) => match taken {
                    Ok(taken) => return self.granted(key, path, &taken),
                    Err(failure) => failure,
                },
                // Whatever is under way is dropped, answered or not: it is in doubt.
                reason = session.until_lost() => Failure {
                    why: format!("session-expired: {reason}"),
                    lease_is_gone: false,
                    doubt: true,
                },
            };
            if !self.clear_away(&path, &failure, deadline).await {
                // Our key may be there, or may come yet, until its lease has run out: nobody knows.
                return Completion::Info(failure.why);
            }
            // Nothing of this try is left. Being told that it is taken, or that time is up, is final; a session that
            // died is replaced while there is time.
            let delay = Duration::from_micros(self.random.random_range(RETRY_DELAY_US));
            if self.session.is_some() || Instant::now() + delay >= try_until {
                return Completion::Fail(failure.why);
            }
            sleep(delay).await;
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(place) = self.held.iter().position(|held| held.key == key) else {
            // This process was never granted it, or gave it back: there is nothing to send.
            return Completion::Fail("not-held: this process has not acquired the lock".to_owned());
        };
        let held = self.held.swap_remove(place);
        let session = self.session.take_if(|session| session.lease == held.lease && session.lost().is_none());
        if let Some(session) = &session {
            session.let_go(key);
        }
        // A request that created the key twice may still be under way and create it a third time: only the end of its
        // lease is certain. The session goes with it (it is dropped here).
        if held.doubt && session.is_some() {
            return match self.revoke(held.lease, deadline).await {
                true => Completion::Ok(Value::Null),
                // A write without an answer.
                false => Completion::Info("timeout: the lease could not be ended".to_owned()),
            };
        }
        let path = held.path.as_str();
        // Only our own key: the compare is what keeps a release from removing what another session has there.
        let txn = Txn::new()
            .when([Compare::create_revision(path, CompareOp::Equal, held.create_revision)])
            .and_then([TxnOp::delete(path, None)]);
        let deleted = self
            .members
            .call(deadline, |mut client| {
                let txn = txn.clone();
                async move { client.txn(txn).await }
            })
            .await;
        match deleted {
            Ok(Answered { answer, doubt }) => {
                // Answered: the key is gone, so the session can be used again.
                self.session = session;
                match (answer.succeeded(), doubt) {
                    (true, _) => Completion::Ok(Value::Null),
                    // It was executed and found nothing: the lease had run out.
                    (false, false) => {
                        Completion::Fail("not-held: the lock was no longer this process's".to_owned())
                    }
                    // The key is gone; whether an earlier attempt deleted it or the end of the lease, nobody knows.
                    (false, true) => Completion::Info(
                        "timeout: an attempt was not answered, and the key is gone".to_owned(),
                    ),
                }
            }
            // Not executed: the key stays until the session ends, which is now.
            Err(CallError::Refused { why, doubt: false, .. }) => Completion::Fail(why),
            // A write without an answer. The session is dropped, so that the key does not outlive its lease.
            Err(error) => Completion::Info(error.why()),
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        let held = self.held.iter().find(|held| held.key == key);
        let session = self.session.as_ref().filter(|session| session.lost().is_none());
        Some(match (held, session) {
            (Some(held), Some(session)) => {
                held.lease == session.lease && Instant::now() < session.valid_until()
            }
            _ => false,
        })
    }

    fn token(&self, key: &str) -> Option<u64> {
        let held = self.held.iter().find(|held| held.key == key)?;
        u64::try_from(held.create_revision).ok()
    }
}

impl EtcdLock {
    fn granted(&mut self, key: &str, path: String, taken: &Taken) -> Completion {
        let Some(session) = &self.session else { unreachable!("the lock was taken under a session") };
        let Taken { create_revision, doubt, waited } = *taken;
        session.hold(key);
        if waited {
            // The lease was prolonged while the process waited; whoever judges counts from the last report.
            session.report(key);
        }
        self.held.retain(|held| held.key != key);
        self.held.push(Held { key: key.to_owned(), path, create_revision, lease: session.lease, doubt });
        Completion::Ok(json!({
            "token": create_revision,
            "validity_ms": millis_until(session.valid_until()),
        }))
    }
}
