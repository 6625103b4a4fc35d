//! The recipe itself: a key under the lock's prefix, attached to the session's lease. The oldest key owns the lock.
//!
//! Source: `client/v3/concurrency/mutex.go` and `key.go` of etcd.

use super::api::{
    Compare, RangeRequest, RequestOp, Response, SortOrder, TxnRequest, TxnResponse, WatchCreateRequest,
};
use super::members::{Answered, CallError, Members};
use super::session::LeaseSession;
use fencepost_history::{ErrorCode, OperationError};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// A watch is trusted for so long, and then the key is looked at again: the member that serves it may be cut off
/// from us without either side noticing.
pub(super) const WATCH_MAX: Duration = Duration::from_millis(500);
/// Rest after a watch that broke off.
pub(super) const WATCH_REST: Duration = Duration::from_millis(20);

/// Why a try to acquire did not succeed. Its key is still to be cleared away.
pub(super) struct Failure {
    pub(super) why: OperationError,
    /// The lease is dead by the server's own word: its keys are gone, and no more can come.
    pub(super) lease_is_gone: bool,
    /// An attempt to create the key was not answered.
    pub(super) doubt: bool,
}

impl Failure {
    fn of(error: CallError, doubt_before: bool) -> Failure {
        match error {
            CallError::Refused { why, lease_not_found, doubt } => {
                // Without its lease the key is gone, and an attempt that is still under way finds no lease either.
                Failure { why, lease_is_gone: lease_not_found, doubt: doubt || doubt_before }
            }
            CallError::Unanswered(why) => Failure { why, lease_is_gone: false, doubt: true },
        }
    }
}

/// A grant of the lock.
pub(super) struct QueueGrant {
    /// Of our key: the fencing token.
    pub(super) create_revision: i64,
    /// An attempt to create the key was not answered, and may still create it after it was deleted.
    pub(super) doubt: bool,
    /// Others were first.
    pub(super) waited: bool,
    /// How often a deletion woke this waiter.
    pub(super) wakeups: usize,
}

/// Puts our key if it is not there, waits until no older one is left, and looks whether it is still there. Without
/// `recheck` it does not look again: the defect of etcd issue 11456.
pub(super) async fn take(
    members: &Members,
    session: &LeaseSession,
    prefix: &str,
    path: &str,
    recheck: bool,
    deadline: Instant,
) -> Result<QueueGrant, Failure> {
    let begun = Instant::now();
    let created = put_key(members, session, prefix, path, deadline).await;
    let created = created.map_err(|error| Failure::of(error, true))?;
    let doubt = created.doubt;
    let fail = |code: ErrorCode, detail: &str, lease_is_gone| Failure {
        why: code.error(detail),
        lease_is_gone,
        doubt,
    };
    let Some((create_revision, owner)) = read_created(&created.answer) else {
        return Err(fail(ErrorCode::Protocol, "an answer of etcd lacks a part", false));
    };
    let waited = owner.is_some_and(|owner| owner != create_revision);
    let mut wakeups = 0;
    if waited {
        let alone = wait_for_older(members, prefix, create_revision, deadline).await;
        wakeups = alone.map_err(|why| Failure { why, lease_is_gone: false, doubt })?;
    }
    if !recheck {
        return Ok(QueueGrant { create_revision, doubt, waited, wakeups });
    }
    if waited {
        // The recheck. The lease may have run out while we waited, and with it our key: the lock is then another's.
        let is_there = is_there(members, path, create_revision, deadline).await;
        if !is_there.map_err(|error| Failure::of(error, doubt))? {
            return Err(fail(
                ErrorCode::SessionExpired,
                "the lease ran out while the lock was waited for",
                true,
            ));
        }
    }
    // Beyond the recipe: a keepalive since the acquire began. The session may be old, and its lease have run for
    // some time; after this one it runs for at least the whole TTL from the beginning of the acquire.
    match timeout_at(deadline, session.renewed_since(begun)).await {
        Ok(()) => Ok(QueueGrant { create_revision, doubt, waited, wakeups }),
        Err(_) => Err(fail(ErrorCode::Timeout, "no keepalive was answered in time", false)),
    }
}

/// Puts our key if it is not there, and looks for it and for the oldest key, all in one transaction.
async fn put_key(
    members: &Members,
    session: &LeaseSession,
    prefix: &str,
    path: &str,
    deadline: Instant,
) -> Result<Answered<TxnResponse>, CallError> {
    let oldest = RangeRequest::prefix(prefix).first_created(SortOrder::Ascend);
    // Executing it twice does no harm: the second time finds the key of the first.
    let txn = TxnRequest {
        compare: vec![Compare::created(path, 0)],
        success: vec![RequestOp::put(path, session.lease), RequestOp::range(oldest.clone())],
        failure: vec![RequestOp::range(RangeRequest::key(path)), RequestOp::range(oldest)],
    };
    let call = members.call(deadline, |client| {
        let txn = txn.clone();
        async move { client.txn(txn).await }
    });
    call.await
}

/// Whether our key is still there, and not a later one of its name.
async fn is_there(
    members: &Members,
    path: &str,
    create_revision: i64,
    deadline: Instant,
) -> Result<bool, CallError> {
    let found =
        members.call(deadline, |client| async move { client.range(RangeRequest::key(path)).await }).await?;
    Ok(found.answer.kvs.first().is_some_and(|kv| kv.create_revision == create_revision))
}

/// Create revisions of our key and of the oldest key in the answer to the first transaction.
fn read_created(answer: &TxnResponse) -> Option<(i64, Option<i64>)> {
    let mut parts = answer.answers();
    let create_revision = match parts.next()? {
        Response::Put(_) => answer.revision(),
        Response::Range(mine) => mine.kvs.first()?.create_revision,
        Response::Delete(_) => return None,
    };
    match parts.next()? {
        Response::Range(oldest) => Some((create_revision, oldest.kvs.first().map(|key| key.create_revision))),
        _ => None,
    }
}

/// Waits until no key under the prefix is older than ours. Only the youngest of the older ones is watched, so that a
/// release wakes one waiter and not all. Gives how often that was.
async fn wait_for_older(
    members: &Members,
    prefix: &str,
    create_revision: i64,
    deadline: Instant,
) -> Result<usize, OperationError> {
    let mut wakeups = 0;
    let older = RangeRequest {
        max_create_revision: create_revision - 1,
        ..RangeRequest::prefix(prefix).first_created(SortOrder::Descend)
    };
    loop {
        let found = members
            .call(deadline, |client| {
                let older = older.clone();
                async move { client.range(older).await }
            })
            .await
            .map_err(CallError::why)?
            .answer;
        let Some(predecessor) = found.kvs.first() else { return Ok(wakeups) };
        if Instant::now() >= deadline {
            return Err(ErrorCode::Taken.error("another client holds the lock"));
        }
        let (place, client) = members.current();
        let watched = client.await_deletion(WatchCreateRequest {
            key: predecessor.key.clone(),
            range_end: Vec::new(),
            start_revision: found.revision() + 1,
        });
        match timeout_at(deadline.min(Instant::now() + WATCH_MAX), watched).await {
            Ok(Ok(())) => wakeups += 1,
            // The watch broke off (no leader, a member that went down): look again, elsewhere.
            Ok(Err(_)) => {
                members.turn_from(place).await;
                sleep(WATCH_REST).await;
            }
            Err(_) if Instant::now() >= deadline => {
                return Err(ErrorCode::Taken.error("another client holds the lock"));
            }
            // Quiet for long: look again, in case the watch is dead without an error.
            Err(_) => {}
        }
    }
}

/// Where the keys of a lock stand. The slash at its end keeps lock `a` apart from lock `ab`.
pub(super) fn prefix(key: &str) -> String {
    format!("fencepost/{key}/")
}
