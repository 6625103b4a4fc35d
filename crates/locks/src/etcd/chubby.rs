//! `chubby`: the locks of Google's Chubby, as a recipe on etcd, since Chubby itself is not public.
//!
//! Source: Mike Burrows, "The Chubby lock service for loosely-coupled distributed systems" (OSDI 2006), section 2.4:
//! exclusive and shared mode, sequencers, and the lock-delay.
//!
//! A holder has two keys, made and deleted in one transaction: `fencepost/KEY/MODE/hold/LEASE`, which goes with its
//! session, and `fencepost/KEY/MODE/delay/LEASE`, whose lease is kept alive together with the session's and lasts
//! longer by the lock-delay. A holder that is lost without a release leaves the second one behind, and with it the lock
//! stays taken. A sequencer is the lock's name, its mode, and the create revision of the first key, the generation.

use super::api::{
    Compare, RangeRequest, RequestOp, Response, TxnRequest, TxnResponse, WatchCreateRequest, prefix_end,
};
use super::members::Members;
use super::queue::{WATCH_MAX, WATCH_REST};
use super::recipe::{EtcdRecipe, LEASED};
use super::service::EtcdCluster;
use super::session::LeaseSession;
use super::user::{Attempt, Attempted, LeaseTimes, User};
use crate::capabilities::Capabilities;
use crate::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::error::OptionError;
use crate::options::Options;
use crate::recipe::Lock;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

const LOCK_DELAY: Duration = Duration::from_secs(10);
/// The two leases are prolonged one after the other; this keeps the delay from being the shorter for it.
const SLACK: Duration = Duration::from_secs(1);

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "chubby",
    about: "Chubby's locks as a recipe on etcd (Chubby is not public): sequencers, lock-delay, shared and exclusive mode",
    claims: "exclusion of sessions, ownership, progress after the lock-delay, availability with any minority down, fencing; all while the members' clocks run at about the same rate",
    service: &EtcdCluster,
    recipe: &EtcdRecipe {
        check,
        holders: Some(|name, mode| Some(format!("{}hold/", Mode::of(mode)?.prefix(name)))),
        lock: |user, options| {
            Box::new(ChubbyLock { user, lock_delay: lock_delay(options), held: Vec::new() })
        },
    },
    options: &["lock-delay"],
    capabilities: |options| Capabilities {
        sequencer: true,
        shared_mode: true,
        lock_delay: lock_delay(options) + SLACK,
        ..LEASED
    },
};

fn check(options: &Options) -> Result<(), OptionError> {
    let delay = lock_delay(options);
    if delay.subsec_nanos() != 0 {
        return Err(OptionError(format!(
            "--lock-delay is kept by a lease of etcd, which lasts whole seconds; use {}s",
            delay.as_secs() + 1
        )));
    }
    Ok(())
}

fn lock_delay(options: &Options) -> Duration {
    options.lock_delay.map_or(LOCK_DELAY, |delay| delay.0)
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Exclusive,
    Shared,
}

impl Mode {
    fn of(name: &str) -> Option<Mode> {
        [Mode::Exclusive, Mode::Shared].into_iter().find(|mode| mode.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
        }
    }

    /// Where the keys of those stand who have the lock in this mode.
    fn prefix(self, key: &str) -> String {
        format!("fencepost/{key}/{}/", self.name())
    }

    /// Where no key may stand for the lock to be had in this mode.
    fn excluded(self, key: &str) -> String {
        match self {
            Mode::Exclusive => format!("fencepost/{key}/"),
            Mode::Shared => Mode::Exclusive.prefix(key),
        }
    }
}

struct ChubbyLock {
    user: User,
    lock_delay: Duration,
    held: Vec<ChubbyHold>,
}

struct ChubbyHold {
    key: String,
    mode: Mode,
    lease: i64,
    generation: i64,
    /// An attempt to make the keys was not answered, and may still make them after they were deleted.
    doubt: bool,
}

impl ChubbyHold {
    fn keys(key: &str, mode: Mode, lease: i64) -> [String; 2] {
        let prefix = mode.prefix(key);
        [format!("{prefix}hold/{lease:x}"), format!("{prefix}delay/{lease:x}")]
    }
}

struct Grant {
    generation: i64,
    doubt: bool,
    wakeups: usize,
}

struct ChubbyAttempt<'a> {
    key: &'a str,
    mode: Mode,
}

#[async_trait]
impl Attempt for ChubbyAttempt<'_> {
    type Held = Grant;

    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        _deadline: Instant,
    ) -> Attempted<Grant> {
        let begun = Instant::now();
        let (excluded, txn) = (self.mode.excluded(self.key), self.txn(session));
        let (mut doubt, mut wakeups) = (false, 0);
        loop {
            let asked = members
                .call(until, |client| {
                    let txn = txn.clone();
                    async move { client.txn(txn).await }
                })
                .await;
            let asked = match asked {
                Ok(asked) => asked,
                Err(error) => return Attempted::Unclear(error.why()),
            };
            doubt |= asked.doubt;
            if let Some(generation) = generation(&asked.answer) {
                // A keepalive since the acquire began: the lease runs for at least its TTL from then on.
                return match timeout_at(until, session.renewed_since(begun)).await {
                    Ok(()) => Attempted::Held(Grant { generation, doubt, wakeups }),
                    Err(_) => {
                        Attempted::Unclear(ErrorCode::Timeout.error("no keepalive was answered in time"))
                    }
                };
            }
            let taken = ErrorCode::Taken
                .error("another client holds the lock, or was lost less than the lock-delay ago");
            if doubt {
                // The attempt that was not answered may still make our keys.
                return Attempted::Unclear(taken);
            }
            // As in Chubby all waiters are notified, and try.
            let (place, client) = members.current();
            let watched = client.await_deletion(WatchCreateRequest {
                key: excluded.clone().into_bytes(),
                range_end: prefix_end(&excluded),
                start_revision: asked.answer.revision() + 1,
            });
            match timeout_at(until.min(Instant::now() + WATCH_MAX), watched).await {
                Ok(Ok(())) => wakeups += 1,
                Ok(Err(_)) => {
                    members.turn_from(place).await;
                    sleep(WATCH_REST).await;
                }
                // Quiet for long: try again, in case the watch is dead without an error.
                Err(_) => {}
            }
            if Instant::now() >= until {
                return Attempted::Taken(taken);
            }
        }
    }
}

impl ChubbyAttempt<'_> {
    /// Makes our keys if none stands in their way. Executing it twice does no harm: the second time finds the keys of
    /// the first.
    fn txn(&self, session: &LeaseSession) -> TxnRequest {
        let [hold, delay] = ChubbyHold::keys(self.key, self.mode, session.lease);
        let puts = [hold.clone(), delay].into_iter().zip(session.leases());
        TxnRequest {
            // A comparison with all keys of a prefix holds if it holds for each, and for none it is as if one was not there.
            compare: vec![Compare::none_under(&self.mode.excluded(self.key))],
            success: puts.map(|(key, lease)| RequestOp::put(key, lease)).collect(),
            failure: vec![RequestOp::range(RangeRequest::key(hold))],
        }
    }
}

/// The create revision of our key, if it is there.
fn generation(answer: &TxnResponse) -> Option<i64> {
    match answer.answers().next()? {
        Response::Put(_) => Some(answer.revision()),
        Response::Range(mine) => Some(mine.kvs.first()?.create_revision),
        Response::Delete(_) => None,
    }
}

impl ChubbyLock {
    async fn take(&mut self, key: &str, mode: Mode, ttl: Duration, timeout: Duration) -> Completion {
        let terms = LeaseTimes { ttl, companion: Some(ttl + self.lock_delay + SLACK) };
        let Grant { generation, doubt, wakeups } =
            match self.user.acquire(terms, timeout, &ChubbyAttempt { key, mode }).await {
                Ok(grant) => grant,
                Err(completion) => return completion,
            };
        let Some(session) = &self.user.session else { unreachable!("the lock was taken under a session") };
        session.hold(key);
        session.report(key);
        self.held.retain(|held| held.key != key);
        let validity_ms = millis_until(session.valid_until());
        self.held.push(ChubbyHold { key: key.to_owned(), mode, lease: session.lease, generation, doubt });
        Completion::Ok(json!({
            "token": generation,
            "validity_ms": validity_ms,
            "mode": mode.name(),
            "sequencer": self.sequencer(key),
            "wakeups": wakeups,
        }))
    }

    fn find(&self, key: &str) -> Option<&ChubbyHold> {
        self.held.iter().find(|held| held.key == key)
    }
}

#[async_trait]
impl Lock for ChubbyLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        self.take(key, Mode::Exclusive, ttl, timeout).await
    }

    async fn acquire_shared(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        self.take(key, Mode::Shared, ttl, timeout).await
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(place) = self.held.iter().position(|held| held.key == key) else {
            // This process was never granted it, or gave it back: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "this process has not acquired the lock");
        };
        let ChubbyHold { mode, lease, generation, doubt, .. } = self.held.swap_remove(place);
        let [hold, delay] = ChubbyHold::keys(key, mode, lease);
        // A holder that was lost finds its first key gone, and must leave the second: the lock-delay runs.
        let txn = TxnRequest {
            compare: vec![Compare::created(hold.as_str(), generation)],
            success: vec![RequestOp::delete(hold), RequestOp::delete(delay)],
            failure: Vec::new(),
        };
        self.user.release(key, lease, doubt, txn, Instant::now() + timeout).await
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.find(key).is_some_and(|held| self.user.still_runs(held.lease)))
    }

    fn token(&self, key: &str) -> Option<u64> {
        u64::try_from(self.find(key)?.generation).ok()
    }

    fn unique_value(&self, key: &str) -> Option<String> {
        self.sequencer(key)
    }

    fn sequencer(&self, key: &str) -> Option<String> {
        let ChubbyHold { mode, generation, .. } = self.find(key)?;
        Some(format!("{key}:{}:{generation}", mode.name()))
    }
}
