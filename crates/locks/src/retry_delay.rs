//! How long a process rests between two attempts to take a lock that it must ask for again and again, and
//! for how long a server may wait in its place.

use fencepost_history::Stream;
use rand::RngExt;
use std::time::Duration;

/// The share of the TTL, and its bounds: often enough that a lock that is free is soon taken, and so rarely
/// that asking is not most of what servers and machine do.
const SHARE: u32 = 20;
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(50);

/// The mean retry delay for a lock with this TTL.
pub(crate) fn mean_retry_delay(ttl: Duration) -> Duration {
    (ttl / SHARE).clamp(SHORTEST, LONGEST)
}

/// Of an acquire's time-out, the part for which a server may wait: the rest is the answer's.
pub(crate) fn wait_until(timeout: Duration) -> Duration {
    timeout - (timeout / 4).min(Duration::from_millis(250))
}

/// A retry delay around this mean, from a fifth of it to twice as long, so that processes that came together
/// do not come back together.
pub(crate) fn random_retry_delay(mean: Duration, random: &mut Stream) -> Duration {
    random.random_range(mean / 5..=mean * 2)
}
