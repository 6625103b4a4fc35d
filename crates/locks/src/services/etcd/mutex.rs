//! `etcd`: the mutex of etcd's concurrency package, over transactions. The recipe itself is in `queue.rs`.
//! Source: `client/v3/concurrency/session.go`, `mutex.go`, `election.go` and `key.go` of etcd. The recheck
//! after the wait is there since issue 11456, found by "Jepsen: etcd 3.4.3" (2020); `--no-recheck` omits it.

use super::api::{Compare, RequestOp, TxnRequest};
use super::decisions::{Attempted, after_deletion, deletes_key};
use super::members::Members;
use super::queue::{Care, QueueGrant, leader, prefix, take};
use super::recipe::{EtcdRecipe, LEASED};
use super::sequencers::sequencer;
use super::service::ETCD;
use super::session::LeaseSession;
use super::user::{Attempt, LeaseTimes, User};
use crate::capabilities::Capabilities;
use crate::client::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::held::{Held, never_acquired};
use crate::options::Options;
use crate::recipe::{Lock, Share, no_such_share};
use async_trait::async_trait;
use fencepost_history::{Completion, Grant, LockKind, Mode};
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
    Box::new(EtcdLock { user, care, kind, held: Held::default() })
}

struct EtcdLock {
    user: User,
    care: Care,
    kind: LockKind,
    held: Held<MutexHold>,
}

struct MutexHold {
    path: String,
    create_revision: i64,
    lease: i64,
    /// An attempt to create the key was not answered, and may still create it after it was deleted.
    doubt: bool,
}

struct MutexAttempt {
    own: String,
    waits_for: String,
    care: Care,
}

impl MutexAttempt {
    /// `mode`: none for a mutex.
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

    fn path(&self, session: &LeaseSession) -> String {
        format!("{}{:x}", self.own, session.lease)
    }
}

#[async_trait]
impl Attempt for MutexAttempt {
    type Held = QueueGrant;

    fn aborts_on_lease_loss(&self) -> bool {
        self.care.recheck
    }

    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        deadline: Instant,
    ) -> Attempted<QueueGrant> {
        let path = self.path(session);
        let failure = match take(members, session, &self.waits_for, &path, self.care, until).await {
            Ok(taken) => return Attempted::Held(taken),
            Err(failure) => failure,
        };
        if !deletes_key(&failure, session.lost().is_some()) {
            return Attempted::Unclear(failure.why);
        }
        let deletion = members.call(deadline, |client| {
            let path = &path;
            async move { client.delete(path).await }
        });
        after_deletion(deletion.await, failure.why)
    }
}

impl EtcdLock {
    /// `mode`: of a read-write lock.
    async fn take(
        &mut self,
        key: &str,
        mode: Option<Mode>,
        permits: u32,
        ttl: Duration,
        timeout: Duration,
    ) -> Completion {
        let attempt = MutexAttempt::new(key, mode, Care { permits, ..self.care });
        let taken = match self.user.acquire(LeaseTimes { ttl, companion: None }, timeout, &attempt).await {
            Ok(taken) => taken,
            Err(completion) => return completion,
        };
        let Some(session) = &self.user.session else { unreachable!("the lock was taken under a session") };
        let QueueGrant { created, wakeups } = taken;
        session.hold(key, self.care.recheck);
        if created.waits {
            // Prolonged meanwhile, or not (then the report is old); checkers count from the last.
            session.report();
        }
        let (path, create_revision) = (attempt.path(session), created.create_revision);
        let hold = MutexHold { path, create_revision, lease: session.lease, doubt: created.doubt };
        self.held.remember(key, hold);
        // Readers and holders of permits need not be granted the lock in the order of the queue.
        let is_alone = !matches!(self.kind, LockKind::ReadWrite | LockKind::Semaphore);
        let in_order = is_alone.then_some(create_revision);
        Completion::ok(Grant {
            token: in_order,
            validity_ms: Some(millis_until(session.valid_until()).into()),
            arrival: in_order.map(Into::into),
            wakeups: Some(wakeups),
            ..Grant::default()
        })
    }
}

#[async_trait]
impl Lock for EtcdLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        match self.kind {
            LockKind::Semaphore => no_such_share(),
            LockKind::ReadWrite => self.take(key, Some(Mode::Exclusive), 1, ttl, timeout).await,
            _ => self.take(key, None, 1, ttl, timeout).await,
        }
    }

    async fn acquire_share(
        &mut self,
        key: &str,
        share: Share,
        ttl: Duration,
        timeout: Duration,
    ) -> Completion {
        match (share, self.kind) {
            (Share::Reader, LockKind::ReadWrite) => self.take(key, Some(Mode::Shared), 1, ttl, timeout).await,
            (Share::Permit { of }, LockKind::Semaphore) => self.take(key, None, of, ttl, timeout).await,
            _ => no_such_share(),
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(MutexHold { path, create_revision, lease, doubt }) = self.held.take(key) else {
            return never_acquired();
        };
        // Only our own key: the compare is what keeps a release from removing what another session has there.
        let txn = TxnRequest {
            compare: vec![Compare::created(path.as_str(), create_revision)],
            success: vec![RequestOp::delete(path)],
            failure: Vec::new(),
        };
        self.user.release(key, lease, doubt, txn, Instant::now() + timeout).await
    }

    async fn leader(&mut self, key: &str, timeout: Duration) -> Completion {
        match leader(&self.user.members, &prefix(key), Instant::now() + timeout).await {
            Ok(process) => Completion::ok(process),
            Err(why) => Completion::Fail(why),
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.find(key).is_some_and(|hold| self.user.still_runs(hold.lease)))
    }

    fn token(&self, key: &str) -> Option<u64> {
        u64::try_from(self.held.find(key)?.create_revision).ok()
    }

    fn unique_value(&self, key: &str) -> Option<String> {
        self.held.find(key).map(|hold| format!("{:x}-{}", hold.lease, hold.create_revision))
    }

    fn sequencer(&self, key: &str) -> Option<String> {
        self.held.find(key).map(|hold| sequencer(key, Mode::Exclusive, hold.create_revision))
    }
}
