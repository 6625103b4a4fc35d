//! `etcd`: the mutex of etcd's concurrency package, over transactions. The recipe itself is in `queue.rs`.
//! Source: `client/v3/concurrency/session.go`, `mutex.go`, `election.go` and `key.go` of etcd. The recheck
//! after the wait is there since issue 11456, found by "Jepsen: etcd 3.4.3" (2020); `--no-recheck` omits it.

use super::api::DeleteRangeRequest;
use super::decisions::{Attempted, after_deletion, deletes_key};
use super::members::Members;
use super::queue::{Care, QueueGrant, leader, prefix, take};
use super::recipe::{EtcdRecipe, LEASED};
use super::service::ETCD;
use super::session::LeaseSession;
use super::user::{Attempt, LeaseTimes, LeasedHold, User};
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::options::Options;
use crate::recipe::{Lock, Share};
use async_trait::async_trait;
use fencepost_history::{Completion, Grant, LockKind, Mode};
use fencepost_storage::Credentials;
use std::time::Duration;
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "etcd",
    about: "etcd's own mutex recipe: lease with keepalive, queue by create revision, which is the fencing token",
    claims: "exclusion of sessions, ownership, progress, availability with any minority down, fencing; all while the members' clocks run at about the same rate",
    service: &ETCD,
    recipe: &EtcdRecipe {
        check: |_| Ok(()),
        holders: Some(|name, mode| (mode == Mode::Exclusive).then(|| prefix(name))),
        lock: |user, options| of_kind(LockKind::Mutex, user, options),
    },
    options: &["no-recheck"],
    capabilities: |_| Capabilities { sequencer: true, ..LEASED },
};

/// Source: `client/v3/experimental/recipes/rwmutex.go` of etcd, with the recheck of the mutex.
pub(super) static READ_WRITE: LockDefinition = LockDefinition {
    name: "etcd-read-write",
    about: "etcd's recipe for read-write locks: the queue of etcd, in which a reader waits for older writers only",
    claims: "exclusion of sessions, ownership, progress, availability with any minority down; no fencing; all while the members' clocks run at about the same rate",
    service: &ETCD,
    recipe: &EtcdRecipe::new(|user, options| of_kind(LockKind::ReadWrite, user, options)),
    options: &["no-recheck"],
    capabilities: |_| Capabilities { token: false, unique_value: false, kind: LockKind::ReadWrite, ..LEASED },
};

/// Source: Apache Curator's `InterProcessSemaphoreV2`, whose queue of znodes is one of keys here.
pub(super) static SEMAPHORE: LockDefinition = LockDefinition {
    name: "etcd-semaphore",
    about: "a semaphore: the queue of etcd, whose oldest keys hold the permits",
    claims: READ_WRITE.claims,
    service: &ETCD,
    recipe: &EtcdRecipe::new(|user, options| of_kind(LockKind::Semaphore, user, options)),
    options: &["no-recheck", "count-first"],
    capabilities: |_| Capabilities { token: false, unique_value: false, kind: LockKind::Semaphore, ..LEASED },
};

/// Source: etcd's `client/v3/concurrency/election.go`, with the recheck that it lacks (issue 19597).
pub(super) static ELECTION: LockDefinition = LockDefinition {
    name: "etcd-election",
    about: "etcd's Election: a key with a lease for each candidate; the lowest create revision leads, and is the term",
    claims: LOCK.claims,
    service: &ETCD,
    recipe: &EtcdRecipe::new(|user, options| of_kind(LockKind::Election, user, options)),
    options: &["no-recheck", "nearest-only"],
    capabilities: |_| Capabilities { kind: LockKind::Election, leader: true, ..LEASED },
};

fn of_kind(kind: LockKind, user: User, options: &Options) -> Box<dyn Lock> {
    let care = Care {
        candidate: (kind == LockKind::Election).then(|| user.process()),
        recheck: !options.no_recheck,
        looks_for_older: !options.nearest_only,
        counts_first: options.count_first,
        permits: 1,
    };
    Box::new(EtcdLock { user, care, kind })
}

struct EtcdLock {
    user: User,
    care: Care,
    kind: LockKind,
}

struct MutexAttempt {
    own: String,
    waits_for: String,
    care: Care,
}

impl MutexAttempt {
    /// `mode`: of a read-write lock.
    fn new(key: &str, mode: Option<Mode>, care: Care) -> MutexAttempt {
        let all = prefix(key);
        let (readers, writers) = (format!("{all}read/"), format!("{all}write/"));
        let (own, waits_for) = match mode {
            None => (all.clone(), all),
            Some(Mode::Exclusive) => (writers, all),
            Some(Mode::Shared) => (readers, writers),
        };
        MutexAttempt { own, waits_for, care }
    }
}

#[async_trait]
impl Attempt for MutexAttempt {
    fn aborts_on_lease_loss(&self) -> bool {
        self.care.recheck
    }

    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        deadline: Instant,
    ) -> Attempted<LeasedHold> {
        let path = format!("{}{:x}", self.own, session.lease);
        let failure = match take(members, session, &self.waits_for, &path, self.care, until).await {
            Ok(QueueGrant { created, wakeups }) => {
                return Attempted::Held(LeasedHold {
                    lease: session.lease,
                    keys: vec![path.into_bytes()],
                    revision: created.create_revision,
                    mode: Mode::Exclusive,
                    doubt: created.doubt,
                    wakeups: Some(wakeups),
                    reports: created.waits,
                });
            }
            Err(failure) => failure,
        };
        if !deletes_key(&failure, session.lost().is_some()) {
            return Attempted::Unclear(failure.why);
        }
        let deleted = members.ask(&DeleteRangeRequest::key(path), deadline).await;
        after_deletion(deleted, failure.why)
    }
}

#[async_trait]
impl Lock for EtcdLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        self.acquire_share(key, None, ttl, timeout).await
    }

    async fn acquire_share(
        &mut self,
        key: &str,
        share: Option<Share>,
        ttl: Duration,
        timeout: Duration,
    ) -> Completion {
        let (mode, permits) = match share {
            Some(Share::Reader) => (Some(Mode::Shared), 1),
            Some(Share::Permit { of }) => (None, of),
            None => ((self.kind == LockKind::ReadWrite).then_some(Mode::Exclusive), 1),
        };
        let attempt = MutexAttempt::new(key, mode, Care { permits, ..self.care });
        let times = LeaseTimes { ttl, companion: None };
        let grant = match self.user.acquire(key, times, timeout, &attempt).await {
            Ok(grant) => grant,
            Err(completion) => return completion,
        };
        // Readers and holders of permits need not be granted the lock in the order of the queue.
        let is_alone = !matches!(self.kind, LockKind::ReadWrite | LockKind::Semaphore);
        let in_order = grant.token.filter(|_| is_alone);
        Completion::ok(Grant { token: in_order, arrival: in_order.map(Into::into), ..grant })
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        self.user.release(key, timeout).await
    }

    async fn leader(&mut self, key: &str, timeout: Duration) -> Completion {
        match leader(&self.user.members, &prefix(key), Instant::now() + timeout).await {
            Ok(process) => Completion::ok(process),
            Err(why) => Completion::Fail(why),
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.user.still_runs(key))
    }

    fn credentials(&self, key: &str) -> Credentials {
        self.user.credentials(key)
    }
}
