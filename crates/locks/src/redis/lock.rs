//! The lock on one Redis, which `redis-single` and `redis-sentinel` share: the recipe of the documentation, and the variants
//! that people use instead.
//!
//! Source: the Redis documentation, "Distributed locks with Redis", section "Correct implementation with a single
//! instance"; the wrong variants are those that it, and the articles that it answers, warn of.

use super::node::{Connection, FIRST_CONNECT, HeldKey, RedisNode, Reply, unique_value};
use super::watchdog::{Renewed, Watchdog};
use crate::capabilities::Capabilities;
use crate::client_clock::{ClientClock, Reading};
use crate::error::{ClientError, OptionError};
use crate::notices::Notices;
use crate::options::{Acquire, LockValue, Options, Release};
use crate::pause_points;
use crate::protocol::Hello;
use crate::recipe::{Lock, Session};
use crate::retry_delay::{mean_retry_delay, random_retry_delay};
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Seed, Stream};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Of an acquire's time-out, this part is kept for taking back a SET that was not answered.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(250);
/// Replicas get this part of the TTL to acknowledge a lock.
const WAIT_SHARE: u32 = 10;
/// `--value fixed`.
const FIXED_VALUE: &str = "locked";
/// Nothing of this recipe trusts the time of day.
const CLOCK: ClientClock = ClientClock::Monotonic;

/// Refuses variants of the recipe that contradict each other.
pub(crate) fn check_recipe(options: &Options) -> Result<(), OptionError> {
    if options.watchdog && options.acquire == Acquire::NoTtl {
        return Err(OptionError(
            "--watchdog renews a TTL, and with --acquire no-ttl there is none; leave out one of the two"
                .to_owned(),
        ));
    }
    Ok(())
}

/// What the lock on one Redis can do, by its variants.
pub(crate) fn capabilities(options: &Options) -> Capabilities {
    Capabilities {
        unique_value: options.value == LockValue::Unique,
        validity: options.acquire != Acquire::NoTtl,
        loss_notice: options.watchdog,
        renewal: options.watchdog,
        points: match (options.acquire, options.release) {
            (Acquire::SetnxExpire, Release::GetDel) => {
                &[pause_points::BETWEEN_SETNX_AND_EXPIRE, pause_points::BETWEEN_GET_AND_DEL]
            }
            (Acquire::SetnxExpire, _) => &[pause_points::BETWEEN_SETNX_AND_EXPIRE],
            (_, Release::GetDel) => &[pause_points::BETWEEN_GET_AND_DEL],
            _ => &[],
        },
        ..Capabilities::NONE
    }
}

/// The processes of one client, on one Redis.
pub(crate) struct RedisSession {
    pub(crate) node: Arc<RedisNode>,
    pub(crate) options: Arc<Options>,
    client: String,
    seed: Seed,
}

impl RedisSession {
    /// Waits a while for the connection. A server that is down now may come up: operations say so until it is there.
    pub(crate) async fn begin(node: RedisNode, hello: &Hello) -> Result<Box<dyn Session>, ClientError> {
        let options = Arc::new(hello.options()?);
        node.ready(Instant::now() + FIRST_CONNECT).await;
        let (client, seed) = (hello.client.clone(), Seed(hello.seed));
        Ok(Box::new(RedisSession { node: Arc::new(node), options, client, seed }))
    }
}

impl Session for RedisSession {
    fn lock(&self, process: u64, notices: Notices) -> Box<dyn Lock> {
        Box::new(RedisLock {
            node: self.node.clone(),
            options: self.options.clone(),
            client: self.client.clone(),
            process,
            count: 0,
            random: self.seed.stream(&format!("lock-{process}")),
            notices,
            held: Vec::new(),
        })
    }
}

struct RedisLock {
    node: Arc<RedisNode>,
    options: Arc<Options>,
    client: String,
    process: u64,
    count: u64,
    random: Stream,
    notices: Notices,
    held: Vec<(HeldKey, Option<Watchdog>)>,
}

impl RedisLock {
    /// One attempt to take the lock. A reply of `Unknown` means that something of it may be left.
    async fn attempt(
        &self,
        connection: &Connection,
        key: &str,
        value: &str,
        ttl: Duration,
        until: Instant,
    ) -> Reply<bool> {
        let with_ttl = (self.options.acquire == Acquire::SetNxPx).then_some(ttl);
        match self.node.set_if_free(connection, key, value, with_ttl, until).await {
            Reply::Answer(true) => {}
            other => return other,
        }
        if self.options.acquire == Acquire::SetnxExpire {
            self.notices.reached(key, pause_points::BETWEEN_SETNX_AND_EXPIRE).await;
            // The second command has a time of its own: a client that slept meanwhile sends it all the same.
            let until = until.max(Instant::now() + CLEANUP_MAX);
            match self.node.expire(connection, key, ttl, until).await {
                Reply::Answer(true) => {}
                Reply::Answer(false) => {
                    return Reply::Refused(ErrorCode::NotHeld.error("the key was gone before it had a TTL"));
                }
                other => return taken_without(other),
            }
        }
        match self.options.wait {
            Some(replicas) => self.await_replicas(connection, replicas, ttl, until).await,
            None => Reply::Answer(true),
        }
    }

    /// Lets replicas acknowledge the lock that was just taken.
    async fn await_replicas(
        &self,
        connection: &Connection,
        replicas: u32,
        ttl: Duration,
        until: Instant,
    ) -> Reply<bool> {
        let patience = (ttl / WAIT_SHARE).min(until.saturating_duration_since(Instant::now()));
        // WAIT itself answers at the end of its patience.
        match self.node.wait(connection, replicas, patience, until + CLEANUP_MAX / 2).await {
            Reply::Answer(acknowledged) if acknowledged >= replicas => Reply::Answer(true),
            Reply::Answer(acknowledged) => Reply::Unknown(ErrorCode::Other.error(format_args!(
                "not-replicated: {acknowledged} of {replicas} replicas had acknowledged it in time"
            ))),
            other => taken_without(other),
        }
    }

    /// Takes back what an attempt may have left. True if that is certain.
    async fn take_back(&self, connection: &Connection, key: &str, value: &str, deadline: Instant) -> bool {
        // The value does not tell ours from another's: whatever was deleted could be theirs.
        if self.options.value == LockValue::Fixed {
            return false;
        }
        // The server executes the commands of one connection in order: once it answered a compare-and-delete sent
        // after the SET on the same connection, nothing of this SET is left, nor can come. Without that answer it is
        // unknown, and a new connection would prove nothing: it can overtake the old one.
        matches!(self.node.delete_if_mine(connection, key, value, deadline).await, Reply::Answer(_))
    }

    /// Remembers a lock that was granted, and has it renewed if asked to.
    fn remember(&mut self, key: &str, value: String, begun: Reading, ttl: Duration) -> Option<Reading> {
        let valid_until = (self.options.acquire != Acquire::NoTtl).then(|| begun + ttl);
        let watchdog = valid_until.filter(|_| self.options.watchdog).map(|valid_until| {
            let (node, key, value) = (self.node.clone(), key.to_owned(), value.clone());
            Watchdog::start(
                Renewed { node, key, value, ttl, clock: CLOCK },
                valid_until,
                self.notices.clone(),
            )
        });
        self.held.retain(|(held, _)| held.key != key);
        self.held.push((HeldKey { key: key.to_owned(), value, valid_until }, watchdog));
        valid_until
    }

    /// GET, compare, DEL: what `--release get-del` does.
    async fn look_and_delete(
        &self,
        connection: &Connection,
        key: &str,
        value: &str,
        timeout: Duration,
    ) -> Reply<bool> {
        // Each command has half of the time, from when it is sent: a client that slept between them sends the second.
        match self.node.get(connection, key, Instant::now() + timeout / 2).await {
            Reply::Answer(Some(found)) if found == value => {}
            Reply::Answer(_) => return Reply::Answer(false),
            // A GET changes nothing, and the DEL was not sent.
            Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => return Reply::Unsent(why),
        }
        self.notices.reached(key, pause_points::BETWEEN_GET_AND_DEL).await;
        self.node.delete(connection, key, Instant::now() + timeout / 2).await
    }
}

/// The lock is taken, and what belongs to it was not done, for whatever reason: something is left.
fn taken_without<T>(reply: Reply<T>) -> Reply<bool> {
    match reply {
        Reply::Answer(_) => Reply::Answer(true),
        Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => Reply::Unknown(why),
    }
}

#[async_trait]
impl Lock for RedisLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let cleanup = (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        let deadline = Instant::now() + timeout;
        let try_until = deadline - cleanup;
        loop {
            self.count += 1;
            let value = match self.options.value {
                LockValue::Unique => unique_value(&self.client, self.process, self.count),
                LockValue::Fixed => FIXED_VALUE.to_owned(),
            };
            let begun = CLOCK.now();
            let why_not = match self.node.connection() {
                None => ErrorCode::Unreachable.error(format_args!("no connection to {}", self.node.name)),
                Some(connection) => match self.attempt(&connection, key, &value, ttl, try_until).await {
                    Reply::Answer(true) => {
                        let valid_until = self.remember(key, value, begun, ttl);
                        let mut granted = json!({"granted_by": [connection.server()]});
                        if let Some(valid_until) = valid_until {
                            granted["validity_ms"] = CLOCK.millis_until(valid_until).into();
                        }
                        return Completion::Ok(granted);
                    }
                    Reply::Answer(false) => ErrorCode::Taken.error("another client holds the lock"),
                    // Not executed, or not even sent: nothing is held.
                    Reply::Refused(why) | Reply::Unsent(why) => why,
                    // It may have been executed, or may be later.
                    Reply::Unknown(why) => {
                        // A client that slept past its deadline has this time all the same.
                        let deadline = deadline.max(Instant::now() + cleanup);
                        if !self.take_back(&connection, key, &value, deadline).await {
                            return Completion::Info(why);
                        }
                        why
                    }
                },
            };
            let delay = random_retry_delay(mean_retry_delay(ttl), &mut self.random);
            if Instant::now() + delay >= try_until {
                // Each attempt was answered, was not sent, or was taken back.
                return Completion::Fail(why_not);
            }
            sleep(delay).await;
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(place) = self.held.iter().position(|(held, _)| held.key == key) else {
            // This process was never granted it, or gave it back: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "this process has not acquired the lock");
        };
        // The watchdog ends here: what is given back is not renewed.
        let (held, _) = self.held.swap_remove(place);
        let Some(connection) = self.node.connection() else {
            // Not sent, so it did not happen: the key stays until its TTL ends.
            return Completion::fail(ErrorCode::Unreachable, format!("no connection to {}", self.node.name));
        };
        let reply = match self.options.release {
            Release::Lua => self.node.delete_if_mine(&connection, key, &held.value, deadline).await,
            Release::GetDel => self.look_and_delete(&connection, key, &held.value, timeout).await,
            Release::Blind => self.node.delete(&connection, key, deadline).await,
        };
        match reply {
            Reply::Answer(true) => Completion::Ok(json!({"removed": true})),
            // It ran and found no key, or another's value: the lock was lost before. It deleted nothing.
            Reply::Answer(false) => {
                Completion::fail(ErrorCode::NotHeld, "the lock was no longer this process's")
            }
            // Not executed, or not sent: the key stays until its TTL ends.
            Reply::Refused(why) | Reply::Unsent(why) => Completion::Fail(why),
            // A write without an answer: it may have been executed, and may still be.
            Reply::Unknown(why) => Completion::Info(why),
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        let Some((held, watchdog)) = self.held.iter().find(|(held, _)| held.key == key) else {
            return Some(false);
        };
        let valid_until = watchdog.as_ref().map(Watchdog::valid_until).or(held.valid_until);
        valid_until.map(|end| CLOCK.is_before(end))
    }

    fn token(&self, _key: &str) -> Option<u64> {
        None
    }

    fn unique_value(&self, key: &str) -> Option<String> {
        let (held, _) = self.held.iter().find(|(held, _)| held.key == key)?;
        (self.options.value == LockValue::Unique).then(|| held.value.clone())
    }
}
