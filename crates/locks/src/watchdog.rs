//! Renews a lock at a third of its TTL, for as long as it is held. Source: Redisson's lock watchdog (its
//! reference, "Distributed locks": `lockWatchdogTimeout`, renewed at a third of it).

use crate::client::client_clock::{ClientClock, Reading};
use crate::notices::Notices;
use async_trait::async_trait;
use fencepost_cluster::OwnTask;
use fencepost_history::OperationError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// By which a holder knows how long its lease still runs. No recipe with a watchdog trusts the time of day.
pub(crate) const CLOCK: ClientClock = ClientClock::Monotonic;

/// A renewal is sent when this part of the TTL has passed, and waits as long for its answer.
const SHARE: u32 = 3;
const REST: Duration = Duration::from_millis(20);

/// A lock that is held for a time, as its holder and its watchdog know it.
pub(crate) struct RenewedLease {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) ttl: Duration,
    valid_until: Mutex<Reading>,
    period: Duration,
}

impl RenewedLease {
    pub(crate) fn new(key: &str, value: &str, ttl: Duration, valid_until: Reading) -> RenewedLease {
        let (key, value) = (key.to_owned(), value.to_owned());
        RenewedLease { key, value, ttl, valid_until: Mutex::new(valid_until), period: ttl / SHARE }
    }

    /// The same, renewed once in such a period in the place of a third of the TTL.
    pub(crate) fn every(self, period: Duration) -> RenewedLease {
        RenewedLease { period, ..self }
    }

    pub(crate) fn valid_until(&self) -> Reading {
        *self.valid_until.lock()
    }

    pub(crate) fn prolong(&self, until: Reading) {
        *self.valid_until.lock() = until;
    }

    /// Whether nothing is left of it, by the client's clock.
    pub(crate) fn is_over(&self) -> bool {
        !CLOCK.is_before(self.valid_until())
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum RenewalOutcome {
    Renewed,
    /// Not renewed, or not known to be: tries again soon.
    Again,
    Lost(String),
}

/// After a renewal without an answer that says anything of the lock; `is_over`: nothing is left of the lease.
pub(crate) fn after_no_answer(why: &OperationError, is_over: bool) -> RenewalOutcome {
    match is_over {
        true => RenewalOutcome::Lost(format!("it was not renewed for a whole TTL; {why}")),
        false => RenewalOutcome::Again,
    }
}

#[async_trait]
pub(crate) trait Renews: Send + Sync + 'static {
    async fn renew(&self, lease: &RenewedLease, deadline: Instant) -> RenewalOutcome;
}

/// Renews one lock for as long as the task is kept.
pub(crate) fn keep_renewed(by: impl Renews, lease: Arc<RenewedLease>, notices: Notices) -> OwnTask {
    OwnTask::spawn(keep(by, lease, notices))
}

async fn keep(by: impl Renews, lease: Arc<RenewedLease>, notices: Notices) {
    let RenewedLease { key, ttl, period, .. } = &*lease;
    let mut rest = *period;
    loop {
        sleep(rest).await;
        let (sent, sent_at) = (Instant::now(), CLOCK.now());
        match by.renew(&lease, sent + *period).await {
            RenewalOutcome::Renewed => {
                lease.prolong(sent_at + *ttl);
                notices.renewed(key, sent.elapsed());
                rest = period.saturating_sub(sent.elapsed());
            }
            RenewalOutcome::Again => rest = REST,
            RenewalOutcome::Lost(reason) => return notices.lost(key, reason),
        }
    }
}
