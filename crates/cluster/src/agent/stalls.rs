//! Whether the machine gives the programs of this node time. A machine that is too busy stops a process as a
//! fault does, and no plan says so.
//!
//! The kernel counts how long each thread was ready to run and waited for a core (`schedstat`, "run delay").
//! A node stalled for the time between two looks if one of its threads waited for more than half of it, if
//! the hypervisor gave so much of it to other machines (steal time), or if the second look came as late as
//! that. A kernel without the counter shows only the last two.

use super::limits::others;
use super::output::Out;
use crate::protocol::FromAgent;
use fencepost_history::TimeSpan;
use std::collections::HashMap;
use std::fs::{read_dir, read_to_string};
use std::time::{Duration, Instant};

/// The time between two looks. It is longer where a look takes long: a node may have thousands of threads.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS_TAKE_AT_MOST: u32 = 20;

/// A longer stall is reported in parts, so that a run that ends in it has it.
const PART: Duration = Duration::from_secs(1);

/// The kernel counts time by hundredths of a second in `/proc/stat`.
const TICK: Duration = Duration::from_millis(10);

pub(super) fn watch(out: Out) {
    // Elsewhere than in a node of its own, other programs of the machine would count as its own.
    if std::process::id() != 1 {
        return;
    }
    std::thread::spawn(move || {
        let (mut meter, mut seen, mut stolen) = (Meter::default(), HashMap::new(), stolen());
        let (mut last, mut rest) = (Instant::now(), LOOK);
        loop {
            std::thread::sleep(rest);
            let begun = Instant::now();
            let (waited, now) = (longest_wait(&mut seen), self::stolen());
            let lost = waited.max(now.saturating_sub(std::mem::replace(&mut stolen, now)));
            if let Some(stall) = meter.look(begun - last, rest, lost) {
                out.report(FromAgent::Stalled { ms: TimeSpan(stall).millis() });
            }
            rest = LOOK.max(begun.elapsed() * LOOKS_TAKE_AT_MOST);
            last = begun;
        }
    });
}

#[derive(Default)]
struct Meter {
    stalled: Duration,
}

impl Meter {
    /// Notes a window of `length`, due to take `meant`, that lost `lost`. Gives a stall that is over.
    fn look(&mut self, length: Duration, meant: Duration, lost: Duration) -> Option<Duration> {
        let stalled = lost.max(length.saturating_sub(meant)) * 2 > length;
        if stalled {
            self.stalled += length;
        }
        let is_due = self.stalled >= PART || !stalled && !self.stalled.is_zero();
        is_due.then(|| std::mem::take(&mut self.stalled))
    }
}

/// The longest time for which a thread of the node waited since the last look, by what `seen` had then.
fn longest_wait(seen: &mut HashMap<i32, u64>) -> Duration {
    let threads =
        others().flat_map(|pid| read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten());
    let now: HashMap<i32, u64> = threads
        .filter_map(|thread| {
            let counted = read_to_string(thread.path().join("schedstat")).ok()?;
            let waited_ns = counted.split(' ').nth(1)?.parse().ok()?;
            Some((thread.file_name().to_str()?.parse().ok()?, waited_ns))
        })
        .collect();
    let since = |(thread, ns): (&i32, &u64)| ns.saturating_sub(seen.get(thread).copied().unwrap_or(0));
    let longest_ns = now.iter().map(since).max().unwrap_or(0);
    *seen = now;
    Duration::from_nanos(longest_ns)
}

/// What the hypervisor took of each core since the machine began, on average.
fn stolen() -> Duration {
    let text = read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|all| all.split_whitespace().nth(8)?.parse::<u32>().ok());
    let cores = text.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1).max(1);
    TICK * ticks.unwrap_or(0) / cores as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is reported after windows of these lengths, of which so much was lost, all in milliseconds.
    fn reported(windows: &[(u64, u64)]) -> Vec<u64> {
        let (mut meter, ms) = (Meter::default(), Duration::from_millis);
        let looks = windows.iter().filter_map(|&(length, lost)| meter.look(ms(length), LOOK, ms(lost)));
        looks.map(|stall| stall.as_millis() as u64).collect()
    }

    #[test]
    fn a_node_stalls_while_a_thread_waits_for_more_than_half_of_the_time() {
        assert_eq!(reported(&[(100, 50), (110, 20), (100, 0)]), [0_u64; 0]);
        assert_eq!(reported(&[(100, 51), (101, 90), (100, 50)]), [201]);
    }

    #[test]
    fn a_look_that_comes_late_shows_a_stall_by_itself() {
        assert_eq!(reported(&[(199, 0), (201, 0), (100, 0)]), [201]);
    }

    #[test]
    fn a_long_stall_is_reported_in_parts() {
        let windows = [[(400, 400); 4].as_slice(), &[(100, 0)]].concat();
        assert_eq!(reported(&windows), [1200, 400]);
    }
}
