//! Renews a lock on one Redis at a third of its TTL, for as long as it is held.
//!
//! Source: Redisson's lock watchdog (its reference, "Distributed locks": `lockWatchdogTimeout`, renewed at a third of it).

use crate::client_clock::{ClientClock, Reading};
use crate::notices::Notices;
use crate::redis::node::{RedisNode, Reply};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

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
pub(crate) struct Renewed {
    pub(crate) node: Arc<RedisNode>,
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) ttl: Duration,
    pub(crate) clock: ClientClock,
}

impl Watchdog {
    /// Begins to renew a lock that is valid until then.
    pub(crate) fn start(lock: Renewed, valid_until: Reading, notices: Notices) -> Watchdog {
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

async fn keep(lock: Renewed, valid_until: Arc<Mutex<Reading>>, notices: Notices) {
    let Renewed { node, key, value, ttl, clock } = lock;
    let mut rest = ttl / SHARE;
    loop {
        sleep(rest).await;
        let (sent, sent_at) = (Instant::now(), clock.now());
        let reply = match node.connection() {
            Some(connection) => node.renew_if_mine(&connection, &key, &value, ttl, sent + ttl / SHARE).await,
            None => node.unreachable(),
        };
        match reply {
            Reply::Answer(true) => {
                *valid_until.lock() = sent_at + ttl;
                notices.renewed(&key, sent.elapsed());
                rest = (ttl / SHARE).saturating_sub(sent.elapsed());
            }
            // The script ran and found no key, or another's value.
            Reply::Answer(false) => return notices.lost(&key, "the key is gone, or another's"),
            // Not renewed, or unknown: again, until nothing is left of the lease by the client's own clock.
            Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => {
                let end = *valid_until.lock();
                if !clock.is_before(end) {
                    return notices.lost(&key, format!("it was not renewed for a whole TTL; {why}"));
                }
                rest = REST;
            }
        }
    }
}
