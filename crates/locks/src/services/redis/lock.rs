//! The lock on one Redis: the recipe of the documentation, and the variants that people use instead. Source:
//! the Redis documentation, "Distributed locks with Redis", section "Correct implementation with a single
//! instance"; the wrong variants are those that it, and the articles that it answers, warn of.

use super::decisions::{
    AttemptEnd, Next, after_delete, after_expire, after_get, after_prolong, after_renewal, after_set,
    after_take_back, after_wait,
};
use super::node::{FIRST_CONNECT, NodeConnection, RedisDialer, RedisNode};
use crate::attempts::Attempts;
use crate::capabilities::Capabilities;
use crate::client::client_clock::Reading;
use crate::client::pause_points;
use crate::error::{ClientError, OptionError, refuse};
use crate::held::{Held, never_acquired};
use crate::notices::Notices;
use crate::options::{Acquire, LockValue, Options, ProlongBy, ReleaseBy};
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use crate::reply::Reply;
use crate::watchdog::{CLOCK, RenewalOutcome, RenewedLease, Renews, keep_renewed};
use async_trait::async_trait;
use fencepost_cluster::OwnTask;
use fencepost_history::{Completion, Grant, Seed};
use fencepost_storage::Credentials;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Of an acquire's time-out, this part is kept for taking back a SET that was not answered.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(250);
/// Replicas get this part of the TTL to acknowledge a lock.
const WAIT_SHARE: u32 = 10;
const FIXED_VALUE: &str = "locked";

pub(crate) fn check_recipe(options: &Options) -> Result<(), OptionError> {
    if options.watchdog && options.acquire == Acquire::NoTtl {
        refuse!(
            "watchdog",
            "--watchdog renews a TTL, and with --acquire no-ttl there is none; leave out one of the two"
        );
    }
    Ok(())
}

pub(crate) fn capabilities(options: &Options) -> Capabilities {
    Capabilities {
        unique_value: options.value == LockValue::Unique,
        validity: options.acquire != Acquire::NoTtl,
        loss_notice: options.watchdog,
        renewal: options.watchdog,
        prolong: options.acquire != Acquire::NoTtl,
        points: match (options.acquire, options.release) {
            (Acquire::SetnxExpire, ReleaseBy::GetDel) => {
                &[pause_points::BETWEEN_SETNX_AND_EXPIRE, pause_points::BETWEEN_GET_AND_DEL]
            }
            (Acquire::SetnxExpire, _) => &[pause_points::BETWEEN_SETNX_AND_EXPIRE],
            (_, ReleaseBy::GetDel) => &[pause_points::BETWEEN_GET_AND_DEL],
            _ => &[],
        },
        ..Capabilities::NONE
    }
}

/// The client's side of a lock on one Redis server, however that is found.
pub(crate) struct RedisRecipe {
    pub(crate) check: fn(&Options) -> Result<(), OptionError>,
    /// The way to that server. Errors: the hello does not name the servers that the lock needs.
    pub(crate) node: fn(&Hello, RedisDialer) -> Result<RedisNode, ClientError>,
    /// Whether its locks are renewed without `--watchdog`, too.
    pub(crate) renews: bool,
}

#[async_trait]
impl Recipe for RedisRecipe {
    fn check(&self, options: &Options) -> Result<(), OptionError> {
        (self.check)(options)
    }

    /// A server that is down may still come up.
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let node = (self.node)(hello, RedisDialer::of(hello).await?)?;
        node.ready(Instant::now() + FIRST_CONNECT).await?;
        let options = hello.options()?;
        let options = Arc::new(Options { watchdog: options.watchdog || self.renews, ..options });
        let (node, client, seed) = (Arc::new(node), hello.client.clone(), Seed(hello.seed));
        Ok(Box::new(move |process, notices| {
            Box::new(RedisLock {
                node: node.clone(),
                options: options.clone(),
                attempts: Attempts::new(&client, process, seed),
                notices,
                held: Held::default(),
                digest: None,
            })
        }))
    }
}

struct RedisLock {
    node: Arc<RedisNode>,
    options: Arc<Options>,
    attempts: Attempts,
    notices: Notices,
    held: Held<RedisHold>,
    /// Of the script that releases, where it was loaded (`--release digest`).
    digest: Option<String>,
}

struct RedisHold {
    value: String,
    /// None: it has no end.
    lease: Option<Arc<RenewedLease>>,
    _watchdog: Option<OwnTask>,
}

struct Renewal {
    node: Arc<RedisNode>,
    /// It prolongs whatever is there.
    blind: bool,
}

#[async_trait]
impl Renews for Renewal {
    async fn renew(&self, lease: &RenewedLease, deadline: Instant) -> RenewalOutcome {
        let RenewedLease { key, value, ttl, .. } = lease;
        let connection = self.node.connection();
        let reply = match self.blind {
            true => connection.expire(key, *ttl, deadline).await,
            false => connection.renew_if_mine(key, value, *ttl, deadline).await,
        };
        after_renewal(reply, lease.is_over())
    }
}

impl RedisLock {
    async fn attempt(
        &self,
        connection: &NodeConnection<'_>,
        key: &str,
        value: &str,
        ttl: Duration,
        until: Instant,
    ) -> AttemptEnd {
        let options = &self.options;
        let with_ttl = (options.acquire == Acquire::SetNxPx).then_some(ttl);
        let mut next = after_set(connection.set_if_free(key, value, with_ttl, until).await, options);
        loop {
            next = match next {
                Next::Expire => {
                    self.notices.reached(key, pause_points::BETWEEN_SETNX_AND_EXPIRE).await;
                    // A time of its own: a client that slept meanwhile sends it all the same.
                    let until = until.max(Instant::now() + CLEANUP_MAX);
                    after_expire(connection.expire(key, ttl, until).await, options)
                }
                Next::AwaitReplicas(count) => {
                    let until = until.max(Instant::now());
                    let patience = (ttl / WAIT_SHARE).min(until - Instant::now());
                    // WAIT itself answers at the end of its patience.
                    let reply = connection.wait(count, patience, until + CLEANUP_MAX / 2).await;
                    after_wait(reply, count, options)
                }
                Next::End(end) => return end,
            }
        }
    }

    /// Remembers a lock that was granted, and has it renewed if asked to. Gives the acquire's completion.
    fn granted(&mut self, key: &str, value: String, by: &str, begun: Reading, ttl: Duration) -> Completion {
        let valid_until = (self.options.acquire != Acquire::NoTtl).then(|| begun + ttl);
        let lease = valid_until.map(|end| Arc::new(RenewedLease::new(key, &value, ttl, end)));
        let renewed = lease.clone().filter(|_| self.options.watchdog);
        let watchdog = renewed.map(|lease| keep_renewed(self.renewal(), lease, self.notices.clone()));
        self.held.remember(key, RedisHold { value, lease, _watchdog: watchdog });
        Completion::ok(Grant {
            granted_by: Some(vec![by.into()]),
            validity_ms: valid_until.map(|end| CLOCK.millis_until(end).into()),
            ..Grant::default()
        })
    }

    fn renewal(&self) -> Renewal {
        Renewal { node: self.node.clone(), blind: self.options.blind_renewal }
    }

    /// GET, compare, DEL: what `--release get-del` does.
    async fn look_and_delete(
        &self,
        connection: &NodeConnection<'_>,
        key: &str,
        value: &str,
        timeout: Duration,
    ) -> Completion {
        // Half of the time each, from when it is sent: a client that slept in between sends the second.
        let found = connection.get(key, Instant::now() + timeout / 2).await;
        if let Err(ended) = after_get(found, value) {
            return ended;
        }
        self.notices.reached(key, pause_points::BETWEEN_GET_AND_DEL).await;
        after_delete(connection.delete(key, Instant::now() + timeout / 2).await)
    }
}

#[async_trait]
impl Lock for RedisLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let cleanup = (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        let deadline = Instant::now() + timeout;
        let try_until = deadline - cleanup;
        loop {
            let value = match self.options.value {
                LockValue::Unique => self.attempts.begin(),
                LockValue::Fixed => FIXED_VALUE.to_owned(),
            };
            let begun = CLOCK.now();
            let node = self.node.clone();
            let connection = node.connection();
            let why_not = match self.attempt(&connection, key, &value, ttl, try_until).await {
                AttemptEnd::Granted => return self.granted(key, value, connection.server(), begun, ttl),
                AttemptEnd::Refused(why) => why,
                AttemptEnd::Unknown(why) => return Completion::Info(why),
                AttemptEnd::TakeBack(why) => {
                    // A client that slept past its deadline has this time all the same.
                    let deadline = deadline.max(Instant::now() + cleanup);
                    let deleted = connection.delete_if_mine(key, &value, deadline).await;
                    match after_take_back(deleted, why) {
                        Ok(why) => why,
                        Err(ended) => return ended,
                    }
                }
            };
            if !self.attempts.rest(ttl, try_until).await {
                // Each attempt was answered, was not sent, or was taken back.
                return Completion::Fail(why_not);
            }
        }
    }

    async fn prolong(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(RedisHold { value, lease: Some(lease), .. }) = self.held.find(key) else {
            return never_acquired();
        };
        let (connection, begun) = (self.node.connection(), CLOCK.now());
        let reply = match self.options.prolong {
            ProlongBy::Lua => connection.renew_if_mine(key, value, ttl, deadline).await,
            ProlongBy::Blind => connection.expire(key, ttl, deadline).await,
        };
        if let Reply::Answer(true) = reply {
            lease.prolong(begun + ttl);
        }
        after_prolong(reply)
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        // Its watchdog ends here: what is given back is not renewed.
        let Some(RedisHold { value, .. }) = self.held.take(key) else { return never_acquired() };
        let node = self.node.clone();
        let connection = node.connection();
        match self.options.release {
            ReleaseBy::Lua => after_delete(connection.delete_if_mine(key, &value, deadline).await),
            ReleaseBy::Digest => {
                after_delete(connection.delete_by_digest(key, &value, &mut self.digest, deadline).await)
            }
            ReleaseBy::GetDel => self.look_and_delete(&connection, key, &value, timeout).await,
            ReleaseBy::Blind => after_delete(connection.delete(key, deadline).await),
        }
    }

    async fn leader(&mut self, key: &str, timeout: Duration) -> Completion {
        match self.node.connection().get(key, Instant::now() + timeout).await {
            Reply::Answer(value) => Completion::ok(value.and_then(|value| Attempts::process_of(&value))),
            Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => Completion::Fail(why),
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        let Some(RedisHold { lease, .. }) = self.held.find(key) else { return Some(false) };
        lease.as_ref().map(|lease| !lease.is_over())
    }

    fn credentials(&self, key: &str) -> Credentials {
        let held = self.held.find(key).filter(|_| self.options.value == LockValue::Unique);
        Credentials { unique: held.map(|held| held.value.clone()), ..Credentials::default() }
    }
}
