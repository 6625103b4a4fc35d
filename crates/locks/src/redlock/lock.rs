//! One process's Redlock. The steps carry the numbers of the documentation's list.

use super::ballots::{Ballot, Tally, Votes};
use crate::backend::Lock;
use crate::held::{Held, millis_until};
use crate::redis_node::{RedisNode, Reply, unique_value};
use async_trait::async_trait;
use fencepost_history::{Completion, Stream};
use rand::Rng;
use serde_json::json;
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

pub(super) struct RedlockLock {
    nodes: Arc<[Arc<RedisNode>]>,
    client: String,
    process: u64,
    count: u64,
    random: Stream,
    held: Vec<Held>,
}

impl RedlockLock {
    pub(super) fn new(
        nodes: Arc<[Arc<RedisNode>]>,
        client: &str,
        process: u64,
        random: Stream,
    ) -> RedlockLock {
        RedlockLock { nodes, client: client.to_owned(), process, count: 0, random, held: Vec::new() }
    }

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
        let mut votes = Votes::default();
        let begun = Instant::now();
        let mut count_until = node_deadline;
        // Once it is decided, a node that is slow or down does not hold us up: the others get as long again as the
        // decision took, so that those that would say yes are counted too.
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
                    // As a rule the connection of the SET, so that one still under way is executed before this.
                    Some(connection) => node.delete_if_mine(&connection, &key, &value, node_deadline).await,
                    None => node.unreachable(),
                }
            }
        })
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

/// Whether anything is left of the TTL after the allowance and the shortest time to ask.
pub(super) fn is_long_enough(ttl: Duration) -> bool {
    ttl > drift(ttl) + *NODE_TIMEOUT.start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_leaves_the_drift_allowance() {
        let begun = Instant::now();
        assert_eq!(validity_end(begun, Duration::from_secs(2)) - begun, Duration::from_millis(1978));
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
