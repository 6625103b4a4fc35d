//! Renews a lock on NATS at a third of its TTL, for as long as it is held, by writing its entry anew.

use super::client::NatsClient;
use super::decisions::{Renewal, after_renewal, own_revision};
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

/// A lock that is held, as its holder and its watchdog know it.
pub(super) struct Lease {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) ttl: Duration,
    /// The revision of the grant, by which others are fenced off.
    pub(super) token: u64,
    now: Mutex<(u64, Reading)>,
}

impl Lease {
    pub(super) fn new(key: &str, value: String, ttl: Duration, token: u64, valid_until: Reading) -> Lease {
        Lease { key: key.to_owned(), value, ttl, token, now: Mutex::new((token, valid_until)) }
    }

    /// The revision of the latest write.
    pub(super) fn revision(&self) -> u64 {
        self.now.lock().0
    }

    /// Until when it is valid, by the client's clock.
    pub(super) fn valid_until(&self) -> Reading {
        self.now.lock().1
    }
}

/// The task that renews one lock. Dropping it stops that.
pub(super) struct Watchdog(tokio::task::JoinHandle<()>);

impl Watchdog {
    pub(super) fn start(client: Arc<NatsClient>, lease: Arc<Lease>, notices: Notices) -> Watchdog {
        Watchdog(tokio::spawn(keep(client, lease, notices)))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep(client: Arc<NatsClient>, lease: Arc<Lease>, notices: Notices) {
    let Lease { key, value, ttl, .. } = &*lease;
    let mut rest = *ttl / SHARE;
    loop {
        sleep(rest).await;
        let (sent, sent_at) = (Instant::now(), CLOCK.now());
        let until = sent + *ttl / SHARE;
        let reply = client.write(key, Some(value), Some(lease.revision()), *ttl, until).await;
        match after_renewal(reply, !CLOCK.is_before(lease.valid_until())) {
            Renewal::Renewed(revision) => {
                *lease.now.lock() = (revision, sent_at + *ttl);
                notices.renewed(key, sent.elapsed());
                rest = (*ttl / SHARE).saturating_sub(sent.elapsed());
            }
            Renewal::Look => match own_revision(&client.look(key, *ttl, until).await, value) {
                // It runs on from when that was stored, which is not known: the next renewal tells.
                Some(revision) => {
                    lease.now.lock().0 = revision;
                    rest = REST;
                }
                None => return notices.lost(key, "the entry is gone, or another's"),
            },
            Renewal::Again => rest = REST,
            Renewal::Lost(reason) => return notices.lost(key, reason),
        }
    }
}
