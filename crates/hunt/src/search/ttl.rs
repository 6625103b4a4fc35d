use fencepost_engine::RunOptions;
use fencepost_history::TimeSpan;

/// The time limit of an acquire and the length of the fault phase, in TTLs, where the user left them open.
pub const ACQUIRE_TTLS: u32 = 2;
pub const LIMIT_TTLS: u32 = 6;

/// The options with another TTL, and what follows from it where the user left that open.
pub fn with_ttl(options: RunOptions, ttl: TimeSpan) -> RunOptions {
    let scaled = |time: TimeSpan, ttls: u32| {
        if time.0 == options.ttl.0 * ttls { TimeSpan(ttl.0 * ttls) } else { time }
    };
    let (acquire_timeout, time_limit) =
        (scaled(options.acquire_timeout, ACQUIRE_TTLS), scaled(options.time_limit, LIMIT_TTLS));
    RunOptions { ttl, acquire_timeout, time_limit, ..options }
}
