//! The lock, and the client's side of it: a connection to each server, shared by the processes of one client,
//! and one process's Redlock. The steps carry the numbers of the documentation's list.

use super::ballots::{Ballot, BallotTally, Votes};
use super::tokens;
use crate::attempts::{Attempts, mean_retry_delay, rest};
use crate::capabilities::Capabilities;
use crate::client::client_clock::{ClientClock, Reading};
use crate::client::pause_points;
use crate::definition::LockDefinition;
use crate::error::{ClientError, OptionError, refuse};
use crate::held::{Held, never_acquired};
use crate::notices::Notices;
use crate::options::{Options, ReleaseWhere, TokenFrom};
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use crate::reply::Reply;
use crate::service::{LockService, ServerKind};
use crate::services::redis::node::{FIRST_CONNECT, RedisDialer, RedisNode};
use crate::services::redis::service::{INDEPENDENT, SERVER};
use async_trait::async_trait;
use fencepost_history::{Completion, Grant, OperationError, Seed};
use fencepost_storage::Credentials;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redlock",
    about: "the Redlock algorithm on a majority of independent Redis servers",
    claims: "exclusion while clocks run at about the same rate, delays and pauses are short against the TTL, and servers that lost data stay away for a TTL; ownership; progress; availability with any minority down; no fencing",
    service: &INDEPENDENT_SERVERS,
    recipe: &Redlock,
    options: &[
        "no-elapsed-check",
        "client-clock",
        "no-retry-jitter",
        "retry-delay",
        "release-where",
        "token",
    ],
    capabilities: |options| Capabilities {
        points: &[pause_points::BEFORE_REPLIES],
        token: options.token != TokenFrom::None,
        unique_value: true,
        validity: true,
        ..Capabilities::NONE
    },
};

static INDEPENDENT_SERVERS: LockService = LockService {
    name: "redis-independent",
    about: "five Redis servers that know nothing of each other",
    kinds: &[ServerKind { count: 5, ..SERVER }],
    check_nodes: |_, nodes| match nodes {
        ..3 => refuse!(
            "nodes",
            "redlock on {nodes} servers cannot lose any; use --nodes 3 or more, or --lock redis-single"
        ),
        _ => Ok(()),
    },
    ..INDEPENDENT
};

struct Redlock;

#[async_trait]
impl Recipe for Redlock {
    fn check_ttl(&self, ttl: Duration) -> Result<(), OptionError> {
        if is_long_enough(ttl) {
            return Ok(());
        }
        refuse!(
            "ttl",
            "a TTL of {} ms is eaten up by Redlock's drift allowance and the time to ask; use 10 ms or more",
            ttl.as_millis()
        )
    }

    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        if hello.servers.is_empty() {
            return Err(ClientError::BadHello("redlock needs servers, and the hello names none".to_owned()));
        }
        let options = Arc::new(hello.options()?);
        let dialer = RedisDialer::of(hello).await?;
        let nodes: Arc<[_]> =
            hello.servers.iter().map(|server| Arc::new(RedisNode::open(server, &dialer))).collect();
        // Those that are down now may come up, and meanwhile a majority is enough.
        let deadline = Instant::now() + FIRST_CONNECT;
        for node in nodes.iter() {
            node.ready(deadline).await?;
        }
        let (client, seed) = (hello.client.clone(), Seed(hello.seed));
        Ok(Box::new(move |process, notices| {
            Box::new(RedlockLock {
                nodes: nodes.clone(),
                options: options.clone(),
                attempts: Attempts::new(&client, process, seed),
                notices,
                held: Held::default(),
            })
        }))
    }
}

/// Step 2: "small compared to the total lock auto-release time". The example there is 5–50 ms for 10 s.
const NODE_TIMEOUT_SHARE: u32 = 20;
const NODE_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(50);
/// Step 3's allowance for clocks that run at different rates: 1 % of the TTL, and 2 ms for the granularity of
/// Redis's own expiry. These are the figures of the reference implementations (redlock-rb, redlock-py).
const DRIFT_SHARE: u32 = 100;
const DRIFT_MIN: Duration = Duration::from_millis(2);
/// How often a client that pauses looks whether the nodes have answered.
const ANSWERED_POLL: Duration = Duration::from_millis(1);

struct RedlockLock {
    nodes: Arc<[Arc<RedisNode>]>,
    options: Arc<Options>,
    attempts: Attempts,
    notices: Notices,
    held: Held<RedlockHold>,
}

struct RedlockHold {
    value: String,
    valid_until: Reading,
    places: Vec<usize>,
    token: Option<u64>,
}

impl RedlockLock {
    fn clock(&self) -> ClientClock {
        self.options.client_clock
    }

    /// "Retry on failure": a random rest, from a fifth of the mean to twice as long, so that clients do not
    /// split the votes again. Without the randomness (`--no-retry-jitter`) all come back in step.
    fn retry_delay(&mut self, ttl: Duration) -> Duration {
        let mean = self.options.retry_delay.map_or_else(|| mean_retry_delay(ttl), |delay| delay.0);
        match self.options.no_retry_jitter {
            true => mean,
            false => self.attempts.delay(mean),
        }
    }

    fn everywhere(&self) -> Vec<usize> {
        (0..self.nodes.len()).collect()
    }

    /// Sends one request to each of these nodes at once; answers come as they arrive. Each request is a task
    /// that runs to its end even if no answer is awaited any longer: a decision takes nothing back.
    fn ask<Asked>(
        &self,
        places: &[usize],
        ask: impl Fn(Arc<RedisNode>) -> Asked + Send + Sync,
    ) -> mpsc::UnboundedReceiver<Ballot>
    where
        Asked: Future<Output = Reply<bool>> + Send + 'static,
    {
        let (sender, ballots) = mpsc::unbounded_channel();
        for &place in places {
            let asked = ask(self.nodes[place].clone());
            let sender = sender.clone();
            tokio::spawn(async move {
                let _ = sender.send((place, asked.await));
            });
        }
        ballots
    }

    /// Steps 1 to 3: asks every node and counts; the nodes that granted it, and when the first was asked.
    async fn collect_votes(&self, key: &str, value: &str, ttl: Duration, node_deadline: Instant) -> Votes {
        let (asked_for, value) = (key.to_owned(), value.to_owned());
        let mut ballots = self.ask(&self.everywhere(), move |node| {
            let (key, value) = (asked_for.clone(), value.clone());
            async move { node.connection().set_if_free(&key, &value, Some(ttl), node_deadline).await }
        });
        if self.notices.pause_at(pause_points::BEFORE_REPLIES).is_some() {
            while ballots.len() < self.nodes.len() && Instant::now() < node_deadline {
                sleep(ANSWERED_POLL).await;
            }
            self.notices.reached(key, pause_points::BEFORE_REPLIES).await;
        }
        let mut votes = Votes::default();
        let begun = Instant::now();
        let mut count_until = node_deadline;
        // After the decision, slow nodes get as long again: those that would say yes are counted, too.
        while let Ok(Some(ballot)) = timeout_at(count_until, ballots.recv()).await {
            let decided = votes.decided(self.nodes.len());
            votes.count(ballot);
            if !decided && votes.decided(self.nodes.len()) {
                let now = Instant::now();
                count_until = node_deadline.min(now + (now - begun));
            }
        }
        votes.granted.sort_unstable();
        votes
    }

    /// Compare-and-delete on all nodes, as replies get lost; with `--release-where seen` only on `seen`.
    fn release_from(
        &self,
        seen: &[usize],
        key: &str,
        value: &str,
        node_deadline: Instant,
    ) -> mpsc::UnboundedReceiver<Ballot> {
        let (key, value) = (key.to_owned(), value.to_owned());
        let places = match self.options.release_where {
            ReleaseWhere::All => self.everywhere(),
            ReleaseWhere::Granted => seen.to_vec(),
        };
        self.ask(&places, move |node| {
            let (key, value) = (key.clone(), value.clone());
            async move {
                // As a rule the connection of the SET, so that one still under way is executed before this.
                node.connection().delete_if_mine(&key, &value, node_deadline).await
            }
        })
    }
}

#[async_trait]
impl Lock for RedlockLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        for rounds in 1_u64.. {
            let value = self.attempts.begin();
            // Step 1. The clock is monotonic (CLOCK_MONOTONIC) unless the user wants it otherwise: a wall
            // clock that is set back while we ask makes the validity too long.
            let begun = self.clock().now();
            let node_deadline = (Instant::now() + node_timeout(ttl)).min(deadline);
            let votes = self.collect_votes(key, &value, ttl, node_deadline).await;
            // Steps 3 and 4. Everything since before the first request counts, also a pause of this process.
            let end = validity_end(begun, ttl);
            let why_not = match self.check_votes(key, ttl, end, &votes).await {
                Ok(token) => {
                    let by = votes.granted.iter().map(|place| (*self.nodes[*place].name).into()).collect();
                    let granted = Grant {
                        token: token.and_then(|token| i64::try_from(token).ok()),
                        validity_ms: Some(self.clock().millis_until(end).into()),
                        granted_by: Some(by),
                        rounds: Some(rounds),
                        ..Grant::default()
                    };
                    let hold = RedlockHold { value, valid_until: end, places: votes.granted, token };
                    self.held.remember(key, hold);
                    return Completion::ok(granted);
                }
                Err(why) => why,
            };
            // Step 5. Not waited for: the next attempt has another value, and the same connections.
            drop(self.release_from(&votes.granted, key, &value, Instant::now() + node_timeout(ttl)));
            if !rest(self.retry_delay(ttl), deadline).await {
                // No attempt was a lock, although a write may have timed out: see [`Votes::grant`].
                return Completion::Fail(why_not);
            }
        }
        unreachable!("the deadline comes before the rounds run out")
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(RedlockHold { value, places, .. }) = self.held.take(key) else { return never_acquired() };
        let deadline = Instant::now() + timeout;
        let mut ballots = self.release_from(&places, key, &value, deadline);
        let mut tally = BallotTally::default();
        // A node that is stopped or cut off does not hold us up once the others have settled it.
        while tally.verdict(self.nodes.len()).is_none() {
            match timeout_at(deadline, ballots.recv()).await {
                Ok(Some((_, reply))) => tally.count(reply),
                Ok(None) | Err(_) => break,
            }
        }
        tally.completion(self.nodes.len())
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.find(key).is_some_and(|hold| self.clock().is_before(hold.valid_until)))
    }

    fn credentials(&self, key: &str) -> Credentials {
        let Some(hold) = self.held.find(key) else { return Credentials::default() };
        Credentials { token: hold.token, unique: Some(hold.value.clone()), ..Credentials::default() }
    }
}

impl RedlockLock {
    /// Whether these votes are a lock. Gives its fencing token, where one is wanted.
    async fn check_votes(
        &self,
        key: &str,
        ttl: Duration,
        end: Reading,
        votes: &Votes,
    ) -> Result<Option<u64>, OperationError> {
        let in_time = || self.options.no_elapsed_check || self.clock().is_before(end);
        votes.grant(self.nodes.len(), in_time())?;
        let (source, deadline) = (self.options.token, Instant::now() + node_timeout(ttl));
        let token = tokens::fetch(&self.nodes, source, key, &votes.granted, deadline).await?;
        // Fetching took its time, too.
        votes.grant(self.nodes.len(), in_time())?;
        Ok(token)
    }
}

/// Step 2's time-out for one node.
fn node_timeout(ttl: Duration) -> Duration {
    (ttl / NODE_TIMEOUT_SHARE).clamp(*NODE_TIMEOUT.start(), *NODE_TIMEOUT.end())
}

fn drift(ttl: Duration) -> Duration {
    ttl / DRIFT_SHARE + DRIFT_MIN
}

/// Step 3: the end of validity, counted from `begun`; `begun` itself where the allowance eats up the TTL.
fn validity_end(begun: Reading, ttl: Duration) -> Reading {
    begun + ttl.saturating_sub(drift(ttl))
}

/// Whether anything is left of the TTL after the allowance and the shortest time to ask.
fn is_long_enough(ttl: Duration) -> bool {
    ttl > drift(ttl) + *NODE_TIMEOUT.start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_leaves_the_drift_allowance() {
        let begun = ClientClock::Monotonic.now();
        assert_eq!(validity_end(begun, Duration::from_secs(2)), begun + Duration::from_millis(1978));
        assert_eq!(validity_end(begun, Duration::from_millis(1)), begun);
        assert!(!is_long_enough(Duration::from_millis(5)));
        assert!(is_long_enough(Duration::from_millis(10)));
    }

    #[test]
    fn node_timeout_is_small_against_the_ttl() {
        assert_eq!(node_timeout(Duration::from_secs(10)), Duration::from_millis(50));
        assert_eq!(node_timeout(Duration::from_millis(500)), Duration::from_millis(25));
    }
}
