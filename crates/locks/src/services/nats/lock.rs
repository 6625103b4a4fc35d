//! `nats` as a lock: what it claims, how a client begins, and the lock as one process sees it.

use super::client::NatsClient;
use super::decisions::{
    NatsNext, after_create, after_look, after_marker, after_renewal, after_replace, own_revision,
};
use super::service::NATS;
use crate::attempts::Attempts;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::held::{Held, never_acquired};
use crate::notices::Notices;
use crate::options::{NatsRelease, Options};
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use crate::reply::Reply;
use crate::watchdog::{CLOCK, RenewalOutcome, RenewedLease, Renews, keep_renewed};
use async_trait::async_trait;
use fencepost_cluster::OwnTask;
use fencepost_history::{Completion, Grant, Seed};
use fencepost_storage::Credentials;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "nats",
    about: "an entry of a key-value bucket of NATS JetStream, created where there is none; it expires with the bucket's TTL",
    claims: "exclusion while the servers keep what they acknowledged (--nats-sync always) and judge time alike, and holders stop within the TTL; ownership; progress; availability with any minority down; fencing by the revision",
    service: &NATS,
    recipe: &NatsKeyValue,
    options: &["watchdog", "nats-release"],
    capabilities: |options| Capabilities {
        token: true,
        unique_value: true,
        validity: true,
        loss_notice: options.watchdog,
        renewal: options.watchdog,
        ..Capabilities::NONE
    },
};

struct NatsKeyValue;

#[async_trait]
impl Recipe for NatsKeyValue {
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let options = Arc::new(hello.options()?);
        let client = Arc::new(NatsClient::of(hello).await?);
        let (name, seed) = (hello.client.clone(), Seed(hello.seed));
        Ok(Box::new(move |process, notices| {
            Box::new(NatsLock {
                client: client.clone(),
                options: options.clone(),
                attempts: Attempts::new(&name, process, seed),
                notices,
                held: Held::default(),
            })
        }))
    }
}

struct NatsLock {
    client: Arc<NatsClient>,
    options: Arc<Options>,
    attempts: Attempts,
    notices: Notices,
    held: Held<NatsHold>,
}

struct NatsHold {
    lease: Arc<RenewedLease>,
    /// The revision of the grant, by which others are fenced off.
    token: u64,
    revision: Arc<AtomicU64>,
    _watchdog: Option<OwnTask>,
}

struct NatsRenewal {
    client: Arc<NatsClient>,
    revision: Arc<AtomicU64>,
}

#[async_trait]
impl Renews for NatsRenewal {
    async fn renew(&self, lease: &RenewedLease, deadline: Instant) -> RenewalOutcome {
        let RenewedLease { key, value, ttl, .. } = lease;
        let expected = Some(self.revision.load(Ordering::Relaxed));
        let reply = self.client.write(key, Some(value), expected, *ttl, deadline).await;
        let (revision, done) = match after_renewal(reply, lease.is_over()) {
            Err(instead) => return instead,
            Ok(Some(revision)) => (revision, RenewalOutcome::Renewed),
            Ok(None) => match own_revision(&self.client.look(key, *ttl, deadline).await, value) {
                // It runs on from when that was stored, which is not known: the next renewal tells.
                Some(revision) => (revision, RenewalOutcome::Again),
                None => return RenewalOutcome::Lost("the entry is gone, or another's".to_owned()),
            },
        };
        self.revision.store(revision, Ordering::Relaxed);
        done
    }
}

impl NatsLock {
    /// One attempt to take the lock: granted, refused or unknown.
    async fn attempt(&self, key: &str, value: &str, ttl: Duration, until: Instant) -> NatsNext {
        let client = &self.client;
        let mut next = after_create(client.write(key, Some(value), Some(0), ttl, until).await);
        loop {
            next = match next {
                NatsNext::Look => after_look(client.look(key, ttl, until).await),
                NatsNext::Replace(marker) => {
                    after_replace(client.write(key, Some(value), Some(marker), ttl, until).await)
                }
                end => return end,
            }
        }
    }
}

#[async_trait]
impl Lock for NatsLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        loop {
            let value = self.attempts.begin();
            let begun = CLOCK.now();
            let why_not = match self.attempt(key, &value, ttl, deadline).await {
                NatsNext::Granted(token) => {
                    let lease = Arc::new(RenewedLease::new(key, &value, ttl, begun + ttl));
                    let revision = Arc::new(AtomicU64::new(token));
                    let watchdog = self.options.watchdog.then(|| {
                        let by = NatsRenewal { client: self.client.clone(), revision: revision.clone() };
                        keep_renewed(by, lease.clone(), self.notices.clone())
                    });
                    self.held.remember(key, NatsHold { lease, token, revision, _watchdog: watchdog });
                    return Completion::ok(Grant {
                        token: i64::try_from(token).ok(),
                        validity_ms: Some(CLOCK.millis_until(begun + ttl).into()),
                        ..Grant::default()
                    });
                }
                NatsNext::Unknown(why) => return Completion::Info(why),
                NatsNext::Refused(why) => why,
                NatsNext::Look | NatsNext::Replace(_) => unreachable!("an attempt goes on after these"),
            };
            if !self.attempts.rest(ttl, deadline).await {
                // Each attempt was answered, or was not sent.
                return Completion::Fail(why_not);
            }
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        // Its watchdog ends here: what is given back is not renewed.
        let Some(NatsHold { lease, revision, .. }) = self.held.take(key) else { return never_acquired() };
        let release = self.options.nats_release;
        let marker = async |expected| self.client.write(key, None, expected, lease.ttl, deadline).await;
        let reply = match release {
            NatsRelease::Any => marker(None).await,
            NatsRelease::Revision => match marker(Some(revision.load(Ordering::Relaxed))).await {
                // A renewal may have been stored that this process does not know of.
                Reply::Answer(None) if self.options.watchdog => {
                    let found = self.client.look(key, lease.ttl, deadline).await;
                    match own_revision(&found, &lease.value) {
                        Some(revision) => marker(Some(revision)).await,
                        None => Reply::Answer(None),
                    }
                }
                reply => reply,
            },
        };
        after_marker(reply, release)
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.find(key).is_some_and(|hold| !hold.lease.is_over()))
    }

    fn credentials(&self, key: &str) -> Credentials {
        let Some(NatsHold { lease, token, .. }) = self.held.find(key) else { return Credentials::default() };
        Credentials { token: Some(*token), unique: Some(lease.value.clone()), ..Credentials::default() }
    }
}
