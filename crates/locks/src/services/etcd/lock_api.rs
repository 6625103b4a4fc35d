//! `etcd-lock-api`: the server's own Lock service. The member that is asked carries out the recipe; the
//! client only keeps its lease alive.
//!
//! Source: `etcdserver/api/v3lock` and `clientv3/concurrency/mutex.go` (lines 70 to 77) of etcd 3.4.23. The
//! member makes a key under the lock's name for the lease, waits until no older one is left, and answers. It
//! does not look whether its own key is still there: a waiter whose lease expired while it waited is granted
//! the lock all the same, and so is the next one. A caller that hangs up has its key deleted.

use super::decisions::{Attempted, after_lock_call, after_unlock};
use super::members::Members;
use super::recipe::{EtcdRecipe, LEASED};
use super::service::ETCD;
use super::session::LeaseSession;
use super::user::{Attempt, LeaseTimes, User};
use crate::client::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::held::{Held, never_acquired};
use crate::recipe::Lock;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Grant};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "etcd-lock-api",
    about: "etcd's own Lock service: a member waits for the lock on the client's behalf, under the client's lease",
    claims: "ownership, progress, availability with any minority down; exclusion and fencing only among sessions that live while they wait, since a waiter whose lease expired is granted the lock, too",
    service: &ETCD,
    recipe: &EtcdRecipe::new(|user, _| Box::new(ApiLock { user, held: Held::default() })),
    options: &[],
    capabilities: |_| LEASED,
};

struct ApiLock {
    user: User,
    held: Held<ApiHold>,
}

struct ApiHold {
    /// Its key in etcd, as the service named it.
    path: Vec<u8>,
    revision: i64,
    lease: i64,
}

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
        let reply = timeout_at(until, client.lock(&self.0, session.lease)).await.ok();
        if let Some(Err(_)) = &reply {
            members.turn_from(place).await;
        }
        let held = match after_lock_call(reply) {
            Ok(held) => held,
            Err(why) => return Attempted::Unclear(why),
        };
        // As with the recipe on transactions: a keepalive since the acquire began.
        if timeout_at(until, session.renewed_since(begun)).await.is_err() {
            return Attempted::Unclear(ErrorCode::Timeout.error("no keepalive was answered in time"));
        }
        Attempted::Held(held)
    }
}

#[async_trait]
impl Lock for ApiLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let ask = LockApiAttempt(key.to_owned());
        let (path, revision) =
            match self.user.acquire(LeaseTimes { ttl, companion: None }, timeout, &ask).await {
                Ok(held) => held,
                Err(completion) => return completion,
            };
        let Some(session) = &self.user.session else { unreachable!("the lock was granted under a session") };
        session.hold(key, true);
        // The lease was prolonged while the process waited; checkers count from the last report.
        session.report();
        self.held.remember(key, ApiHold { path, revision, lease: session.lease });
        Completion::ok(Grant {
            token: Some(revision),
            validity_ms: Some(millis_until(session.valid_until()).into()),
            ..Grant::default()
        })
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(ApiHold { path, lease, .. }) = self.held.take(key) else { return never_acquired() };
        let session = self.user.session_of(lease, key);
        let unlocked = self.user.members.call(Instant::now() + timeout, |client| {
            let path = path.clone();
            async move { client.unlock(path).await }
        });
        let end = after_unlock(unlocked.await);
        self.user.put_back(session, end)
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.find(key).is_some_and(|hold| self.user.still_runs(hold.lease)))
    }

    fn token(&self, key: &str) -> Option<u64> {
        u64::try_from(self.held.find(key)?.revision).ok()
    }

    fn unique_value(&self, key: &str) -> Option<String> {
        self.held.find(key).map(|hold| format!("{:x}-{}", hold.lease, hold.revision))
    }
}
