//! Another TTL than a hunt's, with what the hunt made to fit it.

use fencepost_engine::RunOptions;
use fencepost_history::TimeSpan;

/// Where the user left them open: the time limit of an acquire and the length of a schedule's fault phase, in
/// TTLs.
pub const ACQUIRE_TTLS: u32 = 2;
pub const LIMIT_TTLS: u32 = 6;

/// The same options with another TTL, and what follows from it where the user left that open, too.
pub fn with_ttl(options: RunOptions, ttl: TimeSpan) -> RunOptions {
    let scaled = |time: TimeSpan, ttls: u32| {
        if time.0 == options.ttl.0 * ttls { TimeSpan(ttl.0 * ttls) } else { time }
    };
    let (acquire_timeout, time_limit) =
        (scaled(options.acquire_timeout, ACQUIRE_TTLS), scaled(options.time_limit, LIMIT_TTLS));
    RunOptions { ttl, acquire_timeout, time_limit, ..options }
}
