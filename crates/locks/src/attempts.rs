//! Attempts to take a lock that must be asked for again: values, rests, and how long servers may wait.

use fencepost_history::{Seed, Stream};
use rand::RngExt;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The share of the TTL, and its bounds. A free lock is soon taken, and asking is not most of the work.
const SHARE: u32 = 20;
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(50);

pub(crate) fn mean_retry_delay(ttl: Duration) -> Duration {
    (ttl / SHARE).clamp(SHORTEST, LONGEST)
}

/// Of an acquire's time-out, the part for which a server may wait: the rest is the answer's.
pub(crate) fn wait_until(timeout: Duration) -> Duration {
    timeout - (timeout / 4).min(Duration::from_millis(250))
}

/// Rests between two attempts. False, at once, where the next attempt would begin after `until`.
pub(crate) async fn rest(delay: Duration, until: Instant) -> bool {
    let is_in_time = Instant::now() + delay < until;
    if is_in_time {
        sleep(delay).await;
    }
    is_in_time
}

pub(crate) struct Attempts {
    client: String,
    process: u64,
    count: u64,
    random: Stream,
}

impl Attempts {
    pub(crate) fn new(client: &str, process: u64, seed: Seed) -> Attempts {
        let random = seed.stream(&format!("lock-{process}"));
        Attempts { client: client.to_owned(), process, count: 0, random }
    }

    /// Begins an attempt, with a value that no other attempt of any client in any run has: its holder owns
    /// the lock. It is readable, to see in the server whose lock it is. Its random part is the system's and
    /// not of the run's seed: a client that is restarted with the same seed must not repeat itself.
    pub(crate) fn begin(&mut self) -> String {
        self.count += 1;
        format!("{}-{}-{}-{:016x}", self.client, self.process, self.count, rand::random::<u64>())
    }

    pub(crate) fn process_of(value: &str) -> Option<u64> {
        value.rsplit('-').nth(2)?.parse().ok()
    }

    /// A retry delay from a fifth of this mean to twice as long, so that processes do not come back together.
    pub(crate) fn delay(&mut self, mean: Duration) -> Duration {
        self.random.random_range(mean / 5..=mean * 2)
    }

    pub(crate) async fn rest(&mut self, ttl: Duration, until: Instant) -> bool {
        rest(self.delay(mean_retry_delay(ttl)), until).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_has_a_value_of_its_own_that_names_its_process() {
        let mut attempts = Attempts::new("c1", 7, Seed(3));
        let (first, second) = (attempts.begin(), attempts.begin());
        assert_eq!(Attempts::process_of(&first), Some(7));
        assert!(first.starts_with("c1-7-1-") && second.starts_with("c1-7-2-"), "{first} {second}");
        assert_ne!(first, Attempts::new("c1", 7, Seed(3)).begin(), "a client that was restarted");
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempt_begins_when_the_time_is_over() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        assert!(rest(second, begun + 2 * second).await);
        assert_eq!(begun.elapsed(), second);
        assert!(!rest(second, begun + 2 * second).await);
        assert_eq!(begun.elapsed(), second, "there is nothing to rest for");
    }
}
