//! `etcd`: the mutex of etcd's concurrency package, over transactions. The recipe itself is in `queue.rs`.
//!
//! Source: `client/v3/concurrency/session.go`, `mutex.go` and `key.go` of etcd. The recheck of ownership after the
//! wait is there since issue 11456, found by "Jepsen: etcd 3.4.3" (2020); `--no-recheck` leaves it out.

use super::api::{Compare, RequestOp, TxnRequest};
use super::members::Members;
use super::queue::{QueueGrant, prefix, take};
use super::recipe::{EtcdRecipe, LEASED};
use super::service::EtcdCluster;
use super::session::LeaseSession;
use super::user::{Attempt, Attempted, LeaseTimes, User};
use crate::capabilities::Capabilities;
use crate::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::recipe::Lock;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "etcd",
    about: "etcd's own mutex recipe: lease with keepalive, queue by create revision, which is the fencing token",
    claims: "exclusion of sessions, ownership, progress, availability with any minority down, fencing; all while the members' clocks run at about the same rate",
    service: &EtcdCluster,
    recipe: &EtcdRecipe {
        check: |_| Ok(()),
        holders: Some(|name, mode| (mode == "exclusive").then(|| prefix(name))),
        lock: |user, options| Box::new(EtcdLock { user, recheck: !options.no_recheck, held: Vec::new() }),
    },
    options: &["no-recheck"],
    capabilities: |_| Capabilities { sequencer: true, ..LEASED },
};

struct EtcdLock {
    user: User,
    recheck: bool,
    held: Vec<MutexHold>,
}

struct MutexHold {
    key: String,
    /// Its key in etcd.
    path: String,
    create_revision: i64,
    lease: i64,
    /// An attempt to create the key was not answered, and may still create it after it was deleted.
    doubt: bool,
}

struct MutexAttempt {
    prefix: String,
    recheck: bool,
}

impl MutexAttempt {
    fn path(&self, session: &LeaseSession) -> String {
        format!("{}{:x}", self.prefix, session.lease)
    }
}

#[async_trait]
impl Attempt for MutexAttempt {
    type Held = QueueGrant;

    fn heeds_loss(&self) -> bool {
        self.recheck
    }

    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        deadline: Instant,
    ) -> Attempted<QueueGrant> {
        let path = self.path(session);
        let failure = match take(members, session, &self.prefix, &path, self.recheck, until).await {
            Ok(taken) => return Attempted::Held(taken),
            Err(failure) => failure,
        };
        // Our key is taken back, unless a request to create it may still be under way, or it went with its lease: then
        // only the end of the lease is certain.
        if !failure.doubt && !failure.lease_is_gone && session.lost().is_none() {
            let deleted = members
                .call(deadline, |client| {
                    let path = &path;
                    async move { client.delete(path).await }
                })
                .await;
            if deleted.is_ok() {
                return Attempted::Taken(failure.why);
            }
        }
        Attempted::Unclear(failure.why)
    }
}

#[async_trait]
impl Lock for EtcdLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let attempt = MutexAttempt { prefix: prefix(key), recheck: self.recheck };
        let taken = match self.user.acquire(LeaseTimes { ttl, companion: None }, timeout, &attempt).await {
            Ok(taken) => taken,
            Err(completion) => return completion,
        };
        let Some(session) = &self.user.session else { unreachable!("the lock was taken under a session") };
        let QueueGrant { create_revision, doubt, waited, wakeups } = taken;
        session.hold(key);
        if waited {
            // The lease was prolonged while the process waited (or it was not: then the report is old, and says so);
            // checkers count from the last report.
            session.report(key);
        }
        self.held.retain(|held| held.key != key);
        let (path, lease) = (attempt.path(session), session.lease);
        self.held.push(MutexHold { key: key.to_owned(), path, create_revision, lease, doubt });
        Completion::Ok(json!({
            "token": create_revision,
            "validity_ms": millis_until(session.valid_until()),
            "arrival": create_revision,
            "wakeups": wakeups,
        }))
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(place) = self.held.iter().position(|held| held.key == key) else {
            // This process was never granted it, or gave it back: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "this process has not acquired the lock");
        };
        let MutexHold { path, create_revision, lease, doubt, .. } = self.held.swap_remove(place);
        // Only our own key: the compare is what keeps a release from removing what another session has there.
        let txn = TxnRequest {
            compare: vec![Compare::created(path.as_str(), create_revision)],
            success: vec![RequestOp::delete(path)],
            failure: Vec::new(),
        };
        self.user.release(key, lease, doubt, txn, Instant::now() + timeout).await
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.iter().any(|held| held.key == key && self.user.still_runs(held.lease)))
    }

    fn token(&self, key: &str) -> Option<u64> {
        let held = self.held.iter().find(|held| held.key == key)?;
        u64::try_from(held.create_revision).ok()
    }

    fn unique_value(&self, key: &str) -> Option<String> {
        let held = self.held.iter().find(|held| held.key == key)?;
        Some(format!("{:x}-{}", held.lease, held.create_revision))
    }

    fn sequencer(&self, key: &str) -> Option<String> {
        let held = self.held.iter().find(|held| held.key == key)?;
        Some(format!("{key}:exclusive:{}", held.create_revision))
    }
}
