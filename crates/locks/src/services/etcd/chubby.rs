//! `chubby`: the locks of Google's Chubby, as a recipe on etcd, since Chubby itself is not public.
//!
//! Source: Mike Burrows, "The Chubby lock service for loosely-coupled distributed systems" (OSDI 2006),
//! section 2.4: exclusive and shared mode, sequencers, and the lock-delay.
//!
//! A holder has two keys, made and deleted in one transaction: `KEY/MODE/hold/LEASE`, which goes with its
//! session, and `KEY/MODE/delay/LEASE`, whose lease is prolonged with the session's and lasts longer by the
//! lock-delay. A holder that is lost without a release leaves the second one, and the lock stays taken. A
//! sequencer is the lock's name, its mode, and the create revision of the first key, the generation.

use super::api::{Compare, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, prefix_end};
use super::decisions::{Attempted, ChubbyAsked, after_chubby_txn, chubby_taken};
use super::members::Members;
use super::queue::await_deletion;
use super::recipe::{EtcdRecipe, LEASED};
use super::sequencers::name;
use super::service::ETCD;
use super::session::LeaseSession;
use super::user::{Attempt, LeaseTimes, LeasedHold, User};
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::{OptionError, refuse};
use crate::options::Options;
use crate::recipe::{Lock, Share};
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Grant, LockKind, Mode};
use fencepost_storage::Credentials;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

const LOCK_DELAY: Duration = Duration::from_secs(10);
/// The two leases are prolonged one after the other; this keeps the delay from being the shorter for it.
const SLACK: Duration = Duration::from_secs(1);

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "chubby",
    about: "Chubby's locks as a recipe on etcd (Chubby is not public): sequencers, lock-delay, shared and exclusive mode",
    claims: "exclusion of sessions, ownership, progress after the lock-delay, availability with any minority down, fencing; all while the members' clocks run at about the same rate",
    service: &ETCD,
    recipe: &EtcdRecipe {
        check,
        holders: Some(|key, mode| Some(format!("{}hold/", prefix(key, mode)))),
        lock: |user, options| Box::new(ChubbyLock { user, lock_delay: lock_delay(options) }),
    },
    options: &["lock-delay"],
    capabilities: |options| Capabilities {
        sequencer: true,
        kind: LockKind::ReadWrite,
        lock_delay: lock_delay(options).saturating_add(SLACK),
        ..LEASED
    },
};

fn check(options: &Options) -> Result<(), OptionError> {
    let delay = lock_delay(options);
    if delay.subsec_nanos() != 0 {
        refuse!(
            "lock-delay",
            "--lock-delay is kept by a lease of etcd, which lasts whole seconds; use {}s",
            delay.as_secs() + 1
        );
    }
    Ok(())
}

fn lock_delay(options: &Options) -> Duration {
    options.lock_delay.map_or(LOCK_DELAY, |delay| delay.0)
}

fn prefix(key: &str, mode: Mode) -> String {
    format!("{key}/{}/", name(mode))
}

/// Where no key may stand for the lock to be had in this mode.
fn excluded(key: &str, mode: Mode) -> String {
    match mode {
        Mode::Exclusive => format!("{key}/"),
        Mode::Shared => prefix(key, Mode::Exclusive),
    }
}

fn own_keys(key: &str, mode: Mode, lease: i64) -> [String; 2] {
    let prefix = prefix(key, mode);
    [format!("{prefix}hold/{lease:x}"), format!("{prefix}delay/{lease:x}")]
}

struct ChubbyLock {
    user: User,
    lock_delay: Duration,
}

struct ChubbyAttempt<'a> {
    key: &'a str,
    mode: Mode,
}

#[async_trait]
impl Attempt for ChubbyAttempt<'_> {
    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        _deadline: Instant,
    ) -> Attempted<LeasedHold> {
        let begun = Instant::now();
        let excluded = excluded(self.key, self.mode);
        let txn = make_keys(self.key, self.mode, session.lease, session.leases());
        let mut wakeups = 0;
        loop {
            // What was not granted and goes on left no doubt.
            let watch_from = match after_chubby_txn(members.ask(&txn, until).await) {
                ChubbyAsked::Taken { watch_from } => watch_from,
                ChubbyAsked::Unclear(why) => return Attempted::Unclear(why),
                ChubbyAsked::Granted { generation, doubt } => {
                    // A keepalive since the acquire began: the lease runs for at least its TTL from then on.
                    return match timeout_at(until, session.renewed_since(begun)).await {
                        Ok(()) => Attempted::Held(LeasedHold {
                            lease: session.lease,
                            keys: own_keys(self.key, self.mode, session.lease)
                                .map(String::into_bytes)
                                .to_vec(),
                            revision: generation,
                            mode: self.mode,
                            doubt,
                            wakeups: Some(wakeups),
                            reports: true,
                        }),
                        Err(_) => {
                            Attempted::Unclear(ErrorCode::Timeout.error("no keepalive was answered in time"))
                        }
                    };
                }
            };
            // As in Chubby all waiters are notified, and try.
            let watch = WatchCreateRequest {
                key: excluded.clone().into_bytes(),
                range_end: prefix_end(&excluded),
                start_revision: watch_from,
            };
            wakeups += u64::from(await_deletion(members, watch, until).await);
            if Instant::now() >= until {
                return Attempted::Taken(chubby_taken());
            }
        }
    }
}

/// Makes our keys if none stands in their way. Idempotent: a second try finds the keys of the first.
fn make_keys(key: &str, mode: Mode, lease: i64, leases: impl Iterator<Item = i64>) -> TxnRequest {
    let [hold, delay] = own_keys(key, mode, lease);
    TxnRequest {
        // A comparison of a prefix holds if it holds for each of its keys. Ours is not among those that
        // shared mode excludes, and keeps its create revision when it is put again.
        compare: vec![Compare::none_under(&excluded(key, mode)), Compare::created(hold.as_str(), 0)],
        success: [hold.clone(), delay]
            .into_iter()
            .zip(leases)
            .map(|(key, lease)| RequestOp::put(key, lease))
            .collect(),
        failure: vec![RequestOp::range(RangeRequest::key(hold))],
    }
}

#[async_trait]
impl Lock for ChubbyLock {
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
        let mode = if share.is_some() { Mode::Shared } else { Mode::Exclusive };
        let terms = LeaseTimes { ttl, companion: Some(ttl + self.lock_delay + SLACK) };
        match self.user.acquire(key, terms, timeout, &ChubbyAttempt { key, mode }).await {
            Ok(grant) => {
                Completion::ok(Grant { mode: Some(mode), sequencer: self.user.sequencer(key), ..grant })
            }
            Err(completion) => completion,
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        self.user.release(key, timeout).await
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.user.still_runs(key))
    }

    fn credentials(&self, key: &str) -> Credentials {
        Credentials { unique: self.user.sequencer(key), ..self.user.credentials(key) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In both modes a put means that the key was made now: its generation is the revision of the answer.
    #[test]
    fn keys_are_made_once_whatever_the_mode() {
        for (mode, name, others) in
            [(Mode::Exclusive, "exclusive", "a/"), (Mode::Shared, "shared", "a/exclusive/")]
        {
            let hold = format!("a/{name}/hold/7f");
            let txn = make_keys("a", mode, 0x7f, [0x7f, 0x80].into_iter());
            assert_eq!(txn.compare, [Compare::none_under(others), Compare::created(hold.as_str(), 0)]);
            let delay = format!("a/{name}/delay/7f");
            assert_eq!(txn.success, [RequestOp::put(hold.as_str(), 0x7f), RequestOp::put(delay, 0x80)]);
            assert_eq!(txn.failure, [RequestOp::range(RangeRequest::key(hold))]);
        }
    }
}
