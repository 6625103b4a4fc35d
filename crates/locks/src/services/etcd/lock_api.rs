//! `etcd-lock-api`: the server's own Lock service. The member that is asked carries out the recipe; the
//! client only keeps its lease alive.
//!
//! Source: `etcdserver/api/v3lock` and `clientv3/concurrency/mutex.go` (lines 70 to 77) of etcd 3.4.23. The
//! member makes a key under the lock's name for the lease, waits until no older one is left, and answers. It
//! does not look whether its own key is still there: a waiter whose lease expired while it waited is granted
//! the lock all the same, and so is the next one. A caller that hangs up has its key deleted.

use super::api::{LockRequest, UnlockRequest};
use super::decisions::{Attempted, after_lock_call, after_unlock};
use super::members::Members;
use super::recipe::{EtcdRecipe, LEASED};
use super::service::ETCD;
use super::session::LeaseSession;
use super::user::{Attempt, LeaseTimes, LeasedHold, User};
use crate::definition::LockDefinition;
use crate::held::never_acquired;
use crate::recipe::Lock;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Mode};
use fencepost_storage::Credentials;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "etcd-lock-api",
    about: "etcd's own Lock service: a member waits for the lock on the client's behalf, under the client's lease",
    claims: "ownership, progress, availability with any minority down; exclusion and fencing only among sessions that live while they wait, since a waiter whose lease expired is granted the lock, too",
    service: &ETCD,
    recipe: &EtcdRecipe::new(|user, _| Box::new(ApiLock { user })),
    options: &[],
    capabilities: |_| LEASED,
};

struct ApiLock {
    user: User,
}

struct LockApiAttempt(String);

#[async_trait]
impl Attempt for LockApiAttempt {
    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        _deadline: Instant,
    ) -> Attempted<LeasedHold> {
        let begun = Instant::now();
        let (place, client) = members.current();
        let asked = LockRequest { name: self.0.clone().into_bytes(), lease: session.lease };
        let reply = timeout_at(until, client.call(asked)).await.ok();
        if let Some(Err(_)) = &reply {
            members.turn_from(place).await;
        }
        let (path, revision) = match after_lock_call(reply) {
            Ok(held) => held,
            Err(why) => return Attempted::Unclear(why),
        };
        // As with the recipe on transactions: a keepalive since the acquire began.
        if timeout_at(until, session.renewed_since(begun)).await.is_err() {
            return Attempted::Unclear(ErrorCode::Timeout.error("no keepalive was answered in time"));
        }
        Attempted::Held(LeasedHold {
            lease: session.lease,
            keys: vec![path],
            revision,
            mode: Mode::Exclusive,
            doubt: false,
            wakeups: None,
            reports: true,
        })
    }
}

#[async_trait]
impl Lock for ApiLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let ask = LockApiAttempt(key.to_owned());
        match self.user.acquire(key, LeaseTimes { ttl, companion: None }, timeout, &ask).await {
            Ok(grant) => Completion::ok(grant),
            Err(completion) => completion,
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(LeasedHold { keys, lease, .. }) = self.user.take(key) else { return never_acquired() };
        let session = self.user.session_of(lease, key);
        let unlock = UnlockRequest { key: keys[0].clone() };
        let unlocked = self.user.members.ask(&unlock, Instant::now() + timeout);
        let end = after_unlock(unlocked.await);
        self.user.put_back(session, end)
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.user.still_runs(key))
    }

    fn credentials(&self, key: &str) -> Credentials {
        self.user.credentials(key)
    }
}
