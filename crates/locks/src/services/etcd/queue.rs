//! The recipe: a key under the lock's prefix, under the session's lease. The oldest key owns the lock, or the
//! oldest ones own its permits.
//! Source: `client/v3/concurrency/mutex.go` and `key.go` of etcd.

use super::api::{Compare, RangeRequest, RequestOp, SortOrder, TxnRequest, WatchCreateRequest};
use super::decisions::{Created, QueueFailure, after_put};
use super::members::Members;
use super::session::LeaseSession;
use fencepost_history::OperationError;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// A watch is trusted for this long: its member may be cut off from us without either side noticing.
const WATCH_MAX: Duration = Duration::from_millis(500);
const WATCH_REST: Duration = Duration::from_millis(20);

pub(super) struct QueueGrant {
    pub(super) created: Created,
    pub(super) wakeups: u64,
}

/// What a waiter looks at, once its turn seems to have come.
#[derive(Clone, Copy)]
pub(super) struct Care {
    /// The process that its key names: the others ask who leads.
    pub(super) candidate: Option<u64>,
    pub(super) permits: u32,
    /// It counts the keys before it puts its own, and not afterwards: others may put theirs in between.
    pub(super) counts_first: bool,
    /// Whether its own key is still there. Not to look is the defect of etcd issue 11456.
    pub(super) recheck: bool,
    /// Whether any older key is left. Not to look: the key before its own may have been another waiter's.
    pub(super) looks_for_older: bool,
}

impl Care {
    fn value(&self) -> Vec<u8> {
        self.candidate.map(|process| process.to_string().into_bytes()).unwrap_or_default()
    }
}

/// The process that the oldest key names; none: there is no key. Source: `Leader` of etcd's `election.go`.
pub(super) async fn leader(
    members: &Members,
    prefix: &str,
    deadline: Instant,
) -> Result<Option<u64>, OperationError> {
    let oldest = RangeRequest::prefix(prefix).first_created(SortOrder::Ascend);
    let there = members.ask(&oldest, deadline).await.map_err(|error| error.why())?;
    Ok(there.answer.kvs.first().and_then(|key| String::from_utf8_lossy(&key.value).parse().ok()))
}

/// Puts our key if it is not there, waits until no older one is left under `prefix`, and looks for it again.
pub(super) async fn take(
    members: &Members,
    session: &LeaseSession,
    prefix: &str,
    path: &str,
    care: Care,
    deadline: Instant,
) -> Result<QueueGrant, QueueFailure> {
    let begun = Instant::now();
    let mut wakeups = 0;
    if care.counts_first {
        let everybody = Created { create_revision: i64::MAX, doubt: false, waits: true };
        wakeups += wait_for_older(members, prefix, &everybody, care, deadline).await?;
    }
    // Puts our key if absent, and looks for it and for the oldest key. Idempotent: a second try finds it.
    let oldest = RangeRequest::prefix(prefix).first_created(SortOrder::Ascend);
    let put = TxnRequest {
        compare: vec![Compare::created(path, 0)],
        success: vec![
            RequestOp::put_under(path, care.value(), session.lease),
            RequestOp::range(oldest.clone()),
        ],
        failure: vec![RequestOp::range(RangeRequest::key(path)), RequestOp::range(oldest)],
    };
    let created = after_put(members.ask(&put, deadline).await)?;
    if created.waits && !care.counts_first {
        wakeups += wait_for_older(members, prefix, &created, care, deadline).await?;
    }
    if !care.recheck {
        return Ok(QueueGrant { created, wakeups });
    }
    if created.waits {
        // The lease may have run out while we waited, and with it our key: the lock is then another's.
        created.after_recheck(members.ask(&RangeRequest::key(path), deadline).await)?;
    }
    // Beyond the recipe: a keepalive since the acquire began. The session may be old, and its lease have run
    // for some time; after this one it runs for at least the whole TTL from the beginning of the acquire.
    created.after_keepalive(timeout_at(deadline, session.renewed_since(begun)).await.is_ok())?;
    Ok(QueueGrant { created, wakeups })
}

/// Waits until fewer older keys than permits are under the prefix. Of a mutex only the youngest older one is
/// watched, so that a release wakes one waiter; a permit comes free with any. Gives how often.
async fn wait_for_older(
    members: &Members,
    prefix: &str,
    created: &Created,
    care: Care,
    deadline: Instant,
) -> Result<u64, QueueFailure> {
    let older = RangeRequest {
        max_create_revision: created.create_revision - 1,
        limit: care.permits.into(),
        ..RangeRequest::prefix(prefix).first_created(SortOrder::Descend)
    };
    let mut wakeups = 0;
    while let Some(mut watch) = created.after_look(members.ask(&older, deadline).await, care.permits)? {
        if care.permits > 1 {
            let RangeRequest { key, range_end, .. } = RangeRequest::prefix(prefix);
            watch = WatchCreateRequest { key, range_end, ..watch };
        }
        let is_gone = await_deletion(members, watch, deadline).await;
        wakeups += u64::from(is_gone);
        if is_gone && !care.looks_for_older {
            break;
        }
        if Instant::now() >= deadline {
            return Err(created.still_waits());
        }
    }
    Ok(wakeups)
}

/// Waits for a deletion, for a while: the caller looks again whatever comes. Gives whether there was one.
pub(super) async fn await_deletion(members: &Members, watch: WatchCreateRequest, deadline: Instant) -> bool {
    let (place, client) = members.current();
    match timeout_at(deadline.min(Instant::now() + WATCH_MAX), client.await_deletion(watch)).await {
        Ok(Ok(())) => true,
        // The watch broke off (no leader, a member that went down): elsewhere.
        Ok(Err(_)) => {
            members.turn_from(place).await;
            sleep(WATCH_REST).await;
            false
        }
        // Quiet for long: the watch may be dead without an error.
        Err(_) => false,
    }
}

/// Where the keys of a lock stand. The slash at its end keeps lock `a` apart from lock `ab`.
pub(super) fn prefix(key: &str) -> String {
    format!("{key}/")
}
