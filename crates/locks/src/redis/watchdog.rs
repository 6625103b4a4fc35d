//! Renews a lock on one Redis at a third of its TTL, for as long as it is held.
//!
//! Source: Redisson's lock watchdog (its reference, "Distributed locks": `lockWatchdogTimeout`, renewed at a
//! third of it).

use super::decisions::{Renewal, after_renewal};
use super::node::RedisNode;
use crate::client_clock::{ClientClock, Reading};
use crate::notices::Notices;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Nothing of this recipe trusts the time of day.
pub(super) const CLOCK: ClientClock = ClientClock::Monotonic;

/// A renewal is sent when this part of the TTL has passed, and waits as long for its answer.
const SHARE: u32 = 3;
/// Rest before a renewal that failed is tried again.
const REST: Duration = Duration::from_millis(20);

/// The task that renews one lock. Dropping it stops that.
pub(crate) struct Watchdog {
    valid_until: Arc<Mutex<Reading>>,
    task: tokio::task::JoinHandle<()>,
}

/// What is renewed.
pub(crate) struct RenewedLock {
    pub(crate) node: Arc<RedisNode>,
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) ttl: Duration,
}

impl Watchdog {
    /// Begins to renew a lock that is valid until then.
    pub(crate) fn start(lock: RenewedLock, valid_until: Reading, notices: Notices) -> Watchdog {
        let valid_until = Arc::new(Mutex::new(valid_until));
        let task = tokio::spawn(keep(lock, valid_until.clone(), notices));
        Watchdog { valid_until, task }
    }

    /// Until when the lock is valid, by the client's clock.
    pub(crate) fn valid_until(&self) -> Reading {
        *self.valid_until.lock()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(lock: RenewedLock, valid_until: Arc<Mutex<Reading>>, notices: Notices) {
    let RenewedLock { node, key, value, ttl } = lock;
    let mut rest = ttl / SHARE;
    loop {
        sleep(rest).await;
        let (sent, sent_at) = (Instant::now(), CLOCK.now());
        let reply = node.connection().renew_if_mine(&key, &value, ttl, sent + ttl / SHARE).await;
        let end = *valid_until.lock();
        match after_renewal(reply, !CLOCK.is_before(end)) {
            Renewal::Renewed => {
                *valid_until.lock() = sent_at + ttl;
                notices.renewed(&key, sent.elapsed());
                rest = (ttl / SHARE).saturating_sub(sent.elapsed());
            }
            Renewal::Again => rest = REST,
            Renewal::Lost(reason) => return notices.lost(&key, reason),
        }
    }
}
