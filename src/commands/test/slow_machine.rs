//! Defaults for a machine that is far slower than most, such as an emulated one. Faults and acquires take
//! half a second there: within a TTL of two seconds faults come too late, and a broken lock seems to hold.

use crate::config::is_said;
use fencepost_engine::RunOptions;
use fencepost_history::TimeSpan;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::process::{Command, Stdio};

/// Options that shape how a run passes. A call with one of these, or with a seed, keeps its own.
const SAID: [&str; 7] =
    ["ttl", "time-limit", "acquire-timeout", "nemesis-interval", "hold", "nemesis-file", "seed"];

/// The TTL for each millisecond of processor time that a start takes: 6 s where it takes 30 ms.
const TTL_MS_PER_MS: i64 = 200;

/// The least and the greatest TTL that a slow machine gets.
const TTL_S: (i64, i64) = (6, 20);

const TTLS_OF_FAULTS: u32 = 10;

/// Processor time to start, beyond which a machine is slow: 3 ms on most, 30 ms emulated; twice in debug.
const SLOW_US: i64 = if cfg!(debug_assertions) { 30_000 } else { 15_000 };

/// How often that is measured at most; the shortest counts, since the first start reads the file.
const TRIES: usize = 3;

/// The options with a longer TTL and more time, and a line that says so; none where they stay as they are.
pub fn fit(options: &RunOptions) -> Option<(RunOptions, String)> {
    if SAID.iter().any(|option| is_said(option)) {
        return None;
    }
    let start_us = slow_start_us()?;
    let ttl = slow_ttl(start_us)?;
    let options = RunOptions { ttl, time_limit: TimeSpan(ttl.0 * TTLS_OF_FAULTS), ..options.clone() };
    let line = format!(
        "this machine is slow ({} ms of a processor to start a program): --ttl {ttl} --time-limit {}, unless you say otherwise",
        start_us / 1000,
        options.time_limit
    );
    Some((options, line))
}

/// The TTL for a machine on which a start takes so long; none where that is usual.
fn slow_ttl(start_us: i64) -> Option<TimeSpan> {
    let ttl_s = (start_us * TTL_MS_PER_MS / 1_000_000).clamp(TTL_S.0, TTL_S.1);
    (start_us >= SLOW_US).then(|| TimeSpan::from_secs(ttl_s.unsigned_abs()))
}

/// The shortest of some starts, where all of them are slow: on most machines one is enough to know.
fn slow_start_us() -> Option<i64> {
    let is_slow = |start_us: &i64| slow_ttl(*start_us).is_some();
    let starts: Option<Vec<i64>> = (0..TRIES).map(|_| start_us().filter(is_slow)).collect();
    starts?.into_iter().min()
}

/// The processor time that a start of this program takes: time that passes would say how busy the machine is.
fn start_us() -> Option<i64> {
    let used_us = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
        Some(usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
    };
    let before_us = used_us()?;
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok()?;
    Some(used_us()? - before_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_the_machine_the_longer_the_ttl() {
        let ttl = |start_ms: i64| slow_ttl(start_ms * 1000).map(|ttl| ttl.millis());
        assert_eq!(ttl(8), None);
        assert_eq!([ttl(31), ttl(50), ttl(500)], [Some(6_000), Some(10_000), Some(20_000)]);
    }

    #[test]
    fn a_start_is_measured() {
        // The program is this test itself, which answers `--version` by a complaint.
        assert!(start_us().is_some_and(|start_us| start_us > 0));
    }
}
