//! `etcd-lock-api`: the server's own Lock service. The member that is asked carries out the recipe; the client only keeps
//! its lease alive.
//!
//! Source: `etcdserver/api/v3lock` and `clientv3/concurrency/mutex.go` (lines 70 to 77) of etcd 3.4.23. The member makes a key
//! under the lock's name for the lease, waits until no older one is left, and answers. It does not look whether its own key
//! is still there: a waiter whose lease expired while it waited is granted the lock all the same, and so is the next one.
//! A caller that hangs up has its key deleted.

use super::members::Members;
use super::recipe::{EtcdRecipe, LEASED};
use super::service::EtcdCluster;
use super::session::LeaseSession;
use super::user::{Attempt, Attempted, LeaseTimes, User};
use crate::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::recipe::Lock;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "etcd-lock-api",
    about: "etcd's own Lock service: a member waits for the lock on the client's behalf, under the client's lease",
    claims: "ownership, progress, availability with any minority down; exclusion and fencing only among sessions that live while they wait, since a waiter whose lease expired is granted the lock, too",
    service: &EtcdCluster,
    recipe: &EtcdRecipe {
        check: |_| Ok(()),
        holders: None,
        lock: |user, _| Box::new(ApiLock { user, held: Vec::new() }),
    },
    options: &[],
    capabilities: |_| LEASED,
};

struct ApiLock {
    user: User,
    held: Vec<ApiHold>,
}

struct ApiHold {
    key: String,
    /// Its key in etcd, as the service named it.
    path: Vec<u8>,
    revision: i64,
    lease: i64,
}

/// Asks the Lock service for the lock of this name.
struct LockApiAttempt(String);

#[async_trait]
impl Attempt for LockApiAttempt {
    type Held = (Vec<u8>, i64);

    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        _deadline: Instant,
    ) -> Attempted<Self::Held> {
        let begun = Instant::now();
        let (place, client) = members.current();
        let answer = match timeout_at(until, client.lock(&self.0, session.lease)).await {
            Ok(Ok(answer)) => answer,
            // Whatever it says: the member may have made our key, and may not have taken it back.
            Ok(Err(status)) => {
                members.turn_from(place).await;
                return Attempted::Unclear(
                    ErrorCode::Unavailable.error(format_args!("{}", status.message())),
                );
            }
            // The lock is another's, or the member is gone. It takes our key back when it notices that we hung up.
            Err(_) => {
                return Attempted::Unclear(
                    ErrorCode::Timeout.error("the Lock service did not grant it in time"),
                );
            }
        };
        // As with the recipe on transactions: a keepalive since the acquire began.
        if timeout_at(until, session.renewed_since(begun)).await.is_err() {
            return Attempted::Unclear(ErrorCode::Timeout.error("no keepalive was answered in time"));
        }
        // The revision at which the member looked for older keys for the last time. It grows with every grant, as long as
        // our key lives until we release it: where its lease expired while we waited, the next waiter finds no older key
        // at the same revision, and gets the same token.
        let revision = answer.header.map_or(0, |header| header.revision);
        Attempted::Held((answer.key, revision))
    }
}

#[async_trait]
impl Lock for ApiLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let ask = LockApiAttempt(format!("fencepost/{key}"));
        let (path, revision) =
            match self.user.acquire(LeaseTimes { ttl, companion: None }, timeout, &ask).await {
                Ok(held) => held,
                Err(completion) => return completion,
            };
        let Some(session) = &self.user.session else { unreachable!("the lock was granted under a session") };
        session.hold(key);
        // The lease was prolonged while the process waited; checkers count from the last report.
        session.report(key);
        self.held.retain(|held| held.key != key);
        self.held.push(ApiHold { key: key.to_owned(), path, revision, lease: session.lease });
        Completion::Ok(json!({"token": revision, "validity_ms": millis_until(session.valid_until())}))
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(place) = self.held.iter().position(|held| held.key == key) else {
            // This process was never granted it, or gave it back: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "this process has not acquired the lock");
        };
        let held = self.held.swap_remove(place);
        let session = self.user.session.take_if(|session| session.lease == held.lease);
        if let Some(session) = &session {
            session.let_go(key);
        }
        let unlocked = self
            .user
            .members
            .call(Instant::now() + timeout, |client| {
                let path = held.path.clone();
                async move { client.unlock(path).await }
            })
            .await;
        match unlocked {
            // The service does not say whether there was anything to delete; the key is gone either way.
            Ok(answered) => {
                // An unlock that was not answered may come late, and delete the key of a later grant to this session.
                self.user.session = session.filter(|_| !answered.doubt);
                Completion::Ok(Value::Null)
            }
            // A write without an answer, or one that was not executed: the key stays until the session, which is given
            // up here, runs out.
            Err(error) => Completion::Info(error.why()),
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.iter().any(|held| held.key == key && self.user.still_runs(held.lease)))
    }

    fn token(&self, key: &str) -> Option<u64> {
        let held = self.held.iter().find(|held| held.key == key)?;
        u64::try_from(held.revision).ok()
    }

    fn unique_value(&self, key: &str) -> Option<String> {
        let held = self.held.iter().find(|held| held.key == key)?;
        Some(format!("{:x}-{}", held.lease, held.revision))
    }
}
