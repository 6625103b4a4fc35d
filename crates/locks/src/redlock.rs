//! `redlock`: the lock on a majority of independent Redis servers.
//!
//! Source: the Redis documentation, "Distributed locks with Redis", sections "The Redlock algorithm", "Retry on
//! failure" and "Releasing the lock"; the steps below carry its numbers.

use crate::backend::{Backend, Lock, Notices, Options, Session};
use crate::protocol::Hello;
use crate::redis_node::{RedisNode, Reply, unique_value};
use crate::redis_servers;
use crate::redis_single::{Held, millis_until};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::{Completion, Seed, Stream};
use rand::Rng;
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

/// Step 2: "small compared to the total lock auto-release time". The documentation's example is 5–50 ms for 10 s.
const NODE_TIMEOUT_SHARE: u32 = 20;
const NODE_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(50);
/// Step 3's allowance for clocks that run at different rates: 1 % of the TTL, and 2 ms for the granularity of
/// Redis's own expiry. These are the figures of the reference implementations (redlock-rb, redlock-py).
const DRIFT_SHARE: u32 = 100;
const DRIFT_MIN: Duration = Duration::from_millis(2);
/// "Retry on failure": a random rest, so that clients that split the votes do not split them again.
const RETRY_DELAY_US: RangeInclusive<u64> = 2_000..=20_000;

pub(crate) struct Redlock;

#[async_trait]
impl Backend for Redlock {
    fn name(&self) -> &'static str {
        "redlock"
    }

    fn about(&self) -> &'static str {
        "the Redlock algorithm on a majority of independent Redis servers"
    }

    fn has_token(&self) -> bool {
        false
    }

    fn image(&self) -> Option<&'static str> {
        Some(redis_servers::IMAGE)
    }

    fn default_nodes(&self) -> usize {
        5
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        match options.nodes {
            Some(nodes) if nodes < 3 => Err(format!(
                "redlock on {nodes} servers cannot lose any; use --nodes 3 or more, or --backend redis-single"
            )),
            _ => Ok(()),
        }
    }

    fn check_ttl(&self, ttl: Duration) -> Result<(), String> {
        if ttl > drift(ttl) + *NODE_TIMEOUT.start() {
            return Ok(());
        }
        Err(format!(
            "a TTL of {} ms is eaten up by Redlock's drift allowance and the time to ask; use 10 ms or more",
            ttl.as_millis()
        ))
    }

    fn port(&self) -> u16 {
        redis_servers::PORT
    }

    fn service(&self, _index: usize, _nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        redis_servers::service(options)
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>], _options: &Options) -> Result<(), ClusterError> {
        redis_servers::await_ready(nodes).await
    }

    async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError> {
        redis_servers::version(node).await
    }

    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, String> {
        if hello.servers.is_empty() {
            return Err("redlock needs servers, and the hello names none".to_owned());
        }
        let nodes: Arc<[_]> = hello.servers.iter().map(|server| Arc::new(RedisNode::open(server))).collect();
        // Those that are down now may come up, and meanwhile a majority is enough.
        let deadline = Instant::now() + redis_servers::FIRST_CONNECT;
        for node in nodes.iter() {
            node.ready(deadline).await;
        }
        Ok(Box::new(RedlockSession { nodes, client: hello.client.clone(), seed: Seed(hello.seed) }))
    }
}

struct RedlockSession {
    nodes: Arc<[Arc<RedisNode>]>,
    client: String,
    seed: Seed,
}

impl Session for RedlockSession {
    fn can(&self) -> Vec<String> {
        vec!["validity".to_owned()]
    }

    fn lock(&self, process: u64, _notices: Notices) -> Box<dyn Lock> {
        Box::new(RedlockLock {
            nodes: self.nodes.clone(),
            client: self.client.clone(),
            process,
            count: 0,
            random: self.seed.stream(&format!("lock-{process}")),
            held: Vec::new(),
        })
    }
}

struct RedlockLock {
    nodes: Arc<[Arc<RedisNode>]>,
    client: String,
    process: u64,
    count: u64,
    random: Stream,
    held: Vec<Held>,
}

/// A node by its place in the list, and what it answered.
type Ballot = (usize, Reply<bool>);

impl RedlockLock {
    fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Sends one request to every node at once; answers come as they arrive.
    ///
    /// Each request is a task of its own and runs to its end even where nobody waits for it any more: a decision
    /// does not take back what was already promised to be sent.
    fn ask_all<Asked>(
        &self,
        ask: impl Fn(Arc<RedisNode>) -> Asked + Send + Sync,
    ) -> mpsc::UnboundedReceiver<Ballot>
    where
        Asked: Future<Output = Reply<bool>> + Send + 'static,
    {
        let (sender, ballots) = mpsc::unbounded_channel();
        for (place, node) in self.nodes.iter().enumerate() {
            let asked = ask(node.clone());
            let sender = sender.clone();
            tokio::spawn(async move {
                let _ = sender.send((place, asked.await));
            });
        }
        ballots
    }

    /// Steps 1 to 3: asks every node and counts; the nodes that granted it, and when the first was asked.
    async fn collect_votes(&self, key: &str, value: &str, ttl: Duration, node_deadline: Instant) -> Votes {
        let (key, value) = (key.to_owned(), value.to_owned());
        let mut ballots = self.ask_all(move |node| {
            let (key, value) = (key.clone(), value.clone());
            async move {
                match node.connection() {
                    Some(connection) => node.set_if_free(&connection, &key, &value, ttl, node_deadline).await,
                    None => node.unreachable(),
                }
            }
        });
        let mut votes = Votes { granted: Vec::new(), taken: 0, failed: 0, why: None };
        let begun = Instant::now();
        let mut count_until = node_deadline;
        // Once it is decided, a node that is slow or down does not hold us up: the others get as long again as the
        // decision took, so that those that would say yes are counted too.
        while let Ok(Some((place, reply))) = timeout_at(count_until, ballots.recv()).await {
            let decided = votes.decided(self.nodes.len());
            match reply {
                Reply::Answer(true) => votes.granted.push(place),
                Reply::Answer(false) => votes.taken += 1,
                Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => {
                    votes.failed += 1;
                    votes.why = Some(why);
                }
            }
            if !decided && votes.decided(self.nodes.len()) {
                let now = Instant::now();
                count_until = node_deadline.min(now + (now - begun));
            }
        }
        votes.granted.sort_unstable();
        votes
    }

    /// Compare-and-delete on all nodes, also where the lock was not seen to be granted: a reply may have been lost.
    fn release_everywhere(
        &self,
        key: &str,
        value: &str,
        node_deadline: Instant,
    ) -> mpsc::UnboundedReceiver<Ballot> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.ask_all(move |node| {
            let (key, value) = (key.clone(), value.clone());
            async move {
                match node.connection() {
                    // On the same connection as the SET: one that is still under way is executed before.
                    Some(connection) => node.delete_if_mine(&connection, &key, &value, node_deadline).await,
                    None => node.unreachable(),
                }
            }
        })
    }
}

/// How the nodes voted.
struct Votes {
    granted: Vec<usize>,
    taken: usize,
    failed: usize,
    /// What one of those that failed said.
    why: Option<String>,
}

impl Votes {
    /// Whether the votes still out cannot change who has a majority.
    fn decided(&self, nodes: usize) -> bool {
        let majority = nodes / 2 + 1;
        self.granted.len() >= majority || self.taken + self.failed > nodes - majority
    }
}

#[async_trait]
impl Lock for RedlockLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        loop {
            self.count += 1;
            let value = unique_value(&self.client, self.process, self.count);
            // Step 1. The clock is monotonic (CLOCK_MONOTONIC): a wall clock that is set back while we ask would
            // make the validity too long.
            let begun = Instant::now();
            let node_deadline = (begun + node_timeout(ttl)).min(deadline);
            let votes = self.collect_votes(key, &value, ttl, node_deadline).await;
            // Steps 3 and 4. Everything since before the first request counts, also a pause of this process.
            let end = validity_end(begun, ttl);
            let now = Instant::now();
            if votes.granted.len() >= self.majority() && now < end {
                let granted_by: Vec<&str> =
                    votes.granted.iter().map(|place| &*self.nodes[*place].name).collect();
                let granted = json!({"validity_ms": millis_until(end), "granted_by": granted_by});
                self.held.retain(|held| held.key != key);
                self.held.push(Held { key: key.to_owned(), value, valid_until: end });
                return Completion::Ok(granted);
            }
            // Step 5. Not waited for: the next attempt has another value, and follows on the same connections.
            drop(self.release_everywhere(key, &value, now + node_timeout(ttl)));
            let delay = Duration::from_micros(self.random.random_range(RETRY_DELAY_US));
            if now + delay >= deadline {
                // By the algorithm a client without a majority in time does not hold the lock, whatever became of
                // single SETs and releases that were not answered: those keys go with their TTL. So the acquire
                // certainly did not succeed, although a write timed out.
                return Completion::Fail(self.why_not(&votes));
            }
            sleep(delay).await;
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let Some(place) = self.held.iter().position(|held| held.key == key) else {
            // This process was never granted it, or gave it back: there is nothing to send.
            return Completion::Fail("not-held: this process has not acquired the lock".to_owned());
        };
        let held = self.held.swap_remove(place);
        let deadline = Instant::now() + timeout;
        let mut ballots = self.release_everywhere(key, &held.value, deadline);
        let mut tally = Tally::default();
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
        let held = self.held.iter().find(|held| held.key == key);
        Some(held.is_some_and(|held| Instant::now() < held.valid_until))
    }

    fn token(&self, _key: &str) -> Option<u64> {
        None
    }
}

impl RedlockLock {
    fn why_not(&self, votes: &Votes) -> String {
        let (granted, all) = (votes.granted.len(), self.nodes.len());
        if granted >= self.majority() {
            return "expired: a majority granted it, but asking took longer than the validity".to_owned();
        }
        match &votes.why {
            Some(why) if votes.taken == 0 => format!("no-majority: {granted} of {all} granted it; {why}"),
            Some(why) => {
                format!("taken: {granted} of {all} granted it, {} held another's; {why}", votes.taken)
            }
            None => format!("taken: {granted} of {all} granted it, {} held another's", votes.taken),
        }
    }
}

/// How the nodes answered a release.
#[derive(Default)]
struct Tally {
    deleted: usize,
    absent: usize,
    /// Sent, and not answered.
    unknown: usize,
    /// Not executed, or not sent: these nodes keep the key until its TTL ends.
    untouched: usize,
    why: Option<String>,
}

impl Tally {
    fn count(&mut self, reply: Reply<bool>) {
        match reply {
            Reply::Answer(true) => self.deleted += 1,
            Reply::Answer(false) => self.absent += 1,
            Reply::Refused(why) | Reply::Unsent(why) => {
                self.untouched += 1;
                self.why = Some(why);
            }
            Reply::Unknown(why) => {
                self.unknown += 1;
                self.why = Some(why);
            }
        }
    }

    /// The outcome, as soon as the answers still out cannot change it.
    fn verdict(&self, nodes: usize) -> Option<Completion> {
        let majority = nodes / 2 + 1;
        // A majority did not have the key: this process no longer held the lock when it released.
        if self.absent >= majority {
            return Some(Completion::Fail(format!(
                "not-held: {} of {nodes} no longer had this process's lock",
                self.absent
            )));
        }
        // The key is gone from so many that the rest is no majority: nobody is kept out by it any more.
        let out = nodes - self.deleted - self.absent;
        (out < majority && self.absent + out < majority).then_some(Completion::Ok(Value::Null))
    }

    /// The outcome when no more answers come.
    fn completion(&self, nodes: usize) -> Completion {
        if let Some(verdict) = self.verdict(nodes) {
            return verdict;
        }
        let majority = nodes / 2 + 1;
        if self.deleted + self.absent >= majority {
            // As above; whether it was still held cannot be known any more, and does not matter to anybody.
            return Completion::Ok(Value::Null);
        }
        let why = self.why.clone().unwrap_or_else(|| "timeout: too few nodes answered".to_owned());
        if self.deleted == 0 && self.unknown == 0 && self.untouched == nodes {
            // Nothing was executed anywhere: it certainly did not happen.
            return Completion::Fail(why);
        }
        // A majority may still hold the key, or not: nobody knows.
        Completion::Info(why)
    }
}

/// Step 2's time-out for one node.
fn node_timeout(ttl: Duration) -> Duration {
    (ttl / NODE_TIMEOUT_SHARE).clamp(*NODE_TIMEOUT.start(), *NODE_TIMEOUT.end())
}

fn drift(ttl: Duration) -> Duration {
    ttl / DRIFT_SHARE + DRIFT_MIN
}

/// Step 3: until when a lock is valid whose first node was asked at `begun`. Never later than `begun` itself where
/// the allowance eats up the TTL.
fn validity_end(begun: Instant, ttl: Duration) -> Instant {
    begun + ttl.saturating_sub(drift(ttl))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(deleted: usize, absent: usize, unknown: usize, untouched: usize) -> Tally {
        Tally { deleted, absent, unknown, untouched, why: Some("timeout: n1".to_owned()) }
    }

    #[test]
    fn validity_leaves_the_drift_allowance() {
        let begun = Instant::now();
        assert_eq!(validity_end(begun, Duration::from_secs(2)) - begun, Duration::from_millis(1978));
        assert_eq!(validity_end(begun, Duration::from_millis(1)), begun);
        assert!(Redlock.check_ttl(Duration::from_millis(5)).is_err());
        assert!(Redlock.check_ttl(Duration::from_millis(10)).is_ok());
    }

    #[test]
    fn node_timeout_is_small_against_the_ttl() {
        assert_eq!(node_timeout(Duration::from_secs(10)), Duration::from_millis(50));
        assert_eq!(node_timeout(Duration::from_millis(500)), Duration::from_millis(25));
    }

    #[test]
    fn votes_are_decided_by_a_majority_either_way() {
        let votes = |granted: usize, taken, failed| {
            Votes { granted: (0..granted).collect(), taken, failed, why: None }.decided(5)
        };
        assert!(votes(3, 0, 0));
        assert!(!votes(2, 2, 0));
        assert!(votes(2, 2, 1));
        assert!(votes(0, 3, 0));
    }

    #[test]
    fn a_release_is_ok_once_no_majority_can_have_it() {
        assert_eq!(tally(3, 0, 0, 0).verdict(5), Some(Completion::Ok(Value::Null)));
        assert_eq!(tally(3, 2, 0, 0).completion(5), Completion::Ok(Value::Null));
        assert_eq!(tally(2, 1, 0, 0).verdict(5), None, "the two still out may say absent");
        assert_eq!(tally(2, 2, 1, 0).completion(5), Completion::Ok(Value::Null));
    }

    #[test]
    fn a_release_of_what_a_majority_lost_fails() {
        assert!(
            matches!(tally(2, 3, 0, 0).completion(5), Completion::Fail(why) if why.starts_with("not-held"))
        );
    }

    #[test]
    fn a_release_without_enough_answers_is_indeterminate() {
        assert!(matches!(tally(2, 0, 3, 0).completion(5), Completion::Info(_)));
        assert!(matches!(tally(0, 0, 0, 5).completion(5), Completion::Fail(_)), "nothing was sent");
    }
}
