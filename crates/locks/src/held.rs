//! What a process remembers of a lock on Redis that it was granted.

use tokio::time::Instant;

/// A lock that was granted and not yet given back.
pub(crate) struct Held {
    pub(crate) key: String,
    pub(crate) value: String,
    /// By this process's own clock the lease runs until then.
    pub(crate) valid_until: Instant,
}

/// Whole milliseconds left; 0 where the time is over.
pub(crate) fn millis_until(end: Instant) -> u64 {
    u64::try_from(end.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX)
}
