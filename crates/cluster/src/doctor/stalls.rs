//! How long this machine lets a program wait for a core.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// What a thread does between two rests, by its own count of the time in which it runs.
const WORK: Duration = Duration::from_millis(10);

/// A TTL this many times as long as the longest wait: what a run counts as a stall is longer than that part.
const TTLS_PER_STALL: u32 = 20;

const STEP: Duration = Duration::from_millis(500);

/// By how much work outlasted its own run time at most, on each core. Blocks for `within`, half at rest.
pub fn longest_stall(within: Duration) -> Duration {
    let until = Instant::now() + within;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|threads| {
        let works: Vec<_> = (0..cores).map(|_| threads.spawn(|| stall_of_one(until))).collect();
        works.into_iter().filter_map(|work| work.join().ok()).max().unwrap_or_default()
    })
}

fn stall_of_one(until: Instant) -> Duration {
    let mut longest = Duration::ZERO;
    while Instant::now() < until {
        let (begun, ran) = (Instant::now(), ran());
        while self::ran() < ran + WORK {}
        longest = longest.max(begun.elapsed().saturating_sub(WORK));
        std::thread::sleep(WORK);
    }
    longest
}

fn ran() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::MAX, Duration::from)
}

/// The shortest TTL for which stalls of this length are none of a run's.
pub fn recommended_ttl(stall: Duration) -> Duration {
    let steps = (stall * TTLS_PER_STALL).as_millis().div_ceil(STEP.as_millis()).max(1);
    STEP * u32::try_from(steps).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_twenty_times_as_long_as_the_longest_stall() {
        let ms = |stall_ms| recommended_ttl(Duration::from_millis(stall_ms)).as_millis();
        assert_eq!([0, 1, 25, 26, 180].map(ms), [500, 500, 500, 1000, 4000]);
    }
}
