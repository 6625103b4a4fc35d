//! A lock on one Redis of which each process takes a share, which it holds several times, or of which it
//! takes several names at once: the loop of attempts, which asks by scripts.

use super::decisions::{AttemptEnd, GivenBack, after_ask, after_give_back, after_prolong, after_take_back};
use super::node::{FIRST_CONNECT, NodeConnection, RedisDialer, RedisNode};
use super::service::{INDEPENDENT, SERVER};
use super::single::one_node;
use crate::attempts::Attempts;
use crate::client::client_clock::Reading;
use crate::error::{ClientError, nodes_are};
use crate::held::{Held, never_acquired};
use crate::options::Options;
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session, Share, no_such_share};
use crate::reply::Reply;
use crate::service::LockService;
use crate::watchdog::CLOCK;
use async_trait::async_trait;
use fencepost_history::{Completion, Grant, Seed};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Of an acquire's time-out, this part is kept for taking back what was not answered.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(250);

pub(super) static REDIS_SERVER: LockService = LockService {
    name: "redis",
    about: "one Redis server",
    kinds: &[SERVER],
    check_nodes: |_, nodes| nodes_are!(nodes == 1, "this lock has one server, not {nodes}; use --nodes 1"),
    ..INDEPENDENT
};

#[async_trait]
pub(super) trait Shares: Send + Sync + 'static {
    /// Whether a request that was refused stays in a queue, and is to be repeated.
    fn queues(&self) -> bool {
        false
    }
    async fn ask(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool>;
    /// Takes out what was granted or waits under this value: true if it was there.
    async fn take_out(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool>;
    /// Takes once more what is there under this value: true if it was. None: it is no reentrant lock.
    async fn take_again(&self, _connection: &NodeConnection<'_>, _asked: &Asked<'_>) -> Option<Reply<bool>> {
        None
    }
    /// Gives back what was taken last under this value.
    async fn give_back(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<GivenBack> {
        let taken_out = self.take_out(connection, asked).await;
        taken_out.map(|was_there| if was_there { GivenBack::Removed } else { GivenBack::Gone })
    }
}

pub(super) struct Asked<'a> {
    pub(super) key: &'a str,
    /// All names that are asked for, `key` first.
    pub(super) names: &'a [&'a str],
    /// No other request has it.
    pub(super) value: &'a str,
    pub(super) share: Option<Share>,
    pub(super) ttl: Duration,
    pub(super) until: Instant,
}

/// A lock whose options say how its shares are taken and given back.
pub(super) struct SharesRecipe<S> {
    pub(super) lock: &'static str,
    pub(super) shares: fn(&Options) -> S,
}

#[async_trait]
impl<S: Shares> Recipe for SharesRecipe<S> {
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let node = one_node(hello, self.lock, RedisDialer::of(hello).await?)?;
        node.ready(Instant::now() + FIRST_CONNECT).await?;
        let (node, client, seed) = (Arc::new(node), hello.client.clone(), Seed(hello.seed));
        let shares = Arc::new((self.shares)(&hello.options()?));
        Ok(Box::new(move |process, _| {
            let attempts = Attempts::new(&client, process, seed);
            Box::new(SharedLock {
                node: node.clone(),
                shares: shares.clone(),
                attempts,
                held: Held::default(),
            })
        }))
    }
}

struct SharedLock<S> {
    node: Arc<RedisNode>,
    shares: Arc<S>,
    attempts: Attempts,
    held: Held<HeldShare>,
}

#[derive(Clone)]
struct HeldShare {
    value: String,
    share: Option<Share>,
    valid_until: Reading,
}

impl<S: Shares> SharedLock<S> {
    async fn take(
        &mut self,
        names: &[&str],
        share: Option<Share>,
        ttl: Duration,
        timeout: Duration,
    ) -> Completion {
        let [key, ..] = names else { return no_such_share() };
        let cleanup = (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        let deadline = Instant::now() + timeout;
        let until = deadline - cleanup;
        let node = self.node.clone();
        let mut value = self.attempts.begin();
        let mut is_in_queue = false;
        loop {
            let begun = CLOCK.now();
            let connection = node.connection();
            let asked = Asked { key, names, value: &value, share, ttl, until };
            let reply = self.shares.ask(&connection, &asked).await;
            is_in_queue |= self.shares.queues() && matches!(reply, Reply::Answer(_));
            let (why, is_left) = match after_ask(reply) {
                AttemptEnd::Granted => {
                    let valid_until = begun + ttl;
                    let held = HeldShare { value, share, valid_until };
                    names.iter().for_each(|name| self.held.remember(name, held.clone()));
                    return Completion::ok(Grant {
                        granted_by: Some(vec![connection.server().into()]),
                        validity_ms: Some(CLOCK.millis_until(valid_until).into()),
                        ..Grant::default()
                    });
                }
                AttemptEnd::Refused(why) => (why, false),
                AttemptEnd::TakeBack(why) | AttemptEnd::Unknown(why) => (why, true),
            };
            if !is_left && self.attempts.rest(ttl, until).await {
                continue;
            }
            if is_left || is_in_queue {
                // A client that slept past its deadline has this time all the same.
                let asked = Asked { until: deadline.max(Instant::now() + cleanup), ..asked };
                let taken_out = self.shares.take_out(&connection, &asked).await;
                if let Err(ended) = after_take_back(taken_out, why.clone()) {
                    return ended;
                }
            }
            if !is_left || !self.attempts.rest(ttl, until).await {
                // Each request was answered, was not sent, or was taken out.
                return Completion::Fail(why);
            }
            (value, is_in_queue) = (self.attempts.begin(), false);
        }
    }
}

#[async_trait]
impl<S: Shares> Lock for SharedLock<S> {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        self.take(&[key], None, ttl, timeout).await
    }

    async fn acquire_all(&mut self, names: &[&str], ttl: Duration, timeout: Duration) -> Completion {
        self.take(names, None, ttl, timeout).await
    }

    async fn acquire_share(
        &mut self,
        key: &str,
        share: Option<Share>,
        ttl: Duration,
        timeout: Duration,
    ) -> Completion {
        self.take(&[key], share, ttl, timeout).await
    }

    async fn reenter(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let Some(held) = self.held.find_mut(key) else { return never_acquired() };
        let (begun, until) = (CLOCK.now(), Instant::now() + timeout);
        let asked = Asked { key, names: &[key], value: &held.value, share: held.share, ttl, until };
        let Some(reply) = self.shares.take_again(&self.node.connection(), &asked).await else {
            return no_such_share();
        };
        match after_prolong(reply) {
            Completion::Ok(_) => {
                held.valid_until = begun + ttl;
                let validity_ms = Some(CLOCK.millis_until(held.valid_until).into());
                Completion::ok(Grant { validity_ms, ..Grant::default() })
            }
            ended => ended,
        }
    }

    async fn leave(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(HeldShare { value, share, .. }) = self.held.find(key) else { return never_acquired() };
        let until = Instant::now() + timeout;
        let asked = Asked { key, names: &[key], value, share: *share, ttl: Duration::ZERO, until };
        after_give_back(self.shares.give_back(&self.node.connection(), &asked).await)
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        self.release_all(&[key], timeout).await
    }

    async fn release_all(&mut self, names: &[&str], timeout: Duration) -> Completion {
        let held: Vec<HeldShare> = names.iter().filter_map(|name| self.held.take(name)).collect();
        let ([key, ..], Some(HeldShare { value, share, .. })) = (names, held.first()) else {
            return never_acquired();
        };
        let until = Instant::now() + timeout;
        let asked = Asked { key, names, value, share: *share, ttl: Duration::ZERO, until };
        after_give_back(self.shares.give_back(&self.node.connection(), &asked).await)
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.find(key).is_some_and(|held| CLOCK.is_before(held.valid_until)))
    }
}
