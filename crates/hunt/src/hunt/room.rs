//! How much of this machine the schedules that are played leave free.

use std::fs::read_to_string;
use std::time::{Duration, Instant};

/// Shorter stretches say little: a schedule computes as it starts, and waits afterwards.
const STRETCH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct RoomMeter {
    last: Option<(Instant, CpuTime)>,
}

/// The kernel's count since the machine began, in its ticks.
#[derive(Clone, Copy)]
struct CpuTime {
    idle: u64,
    all: u64,
}

impl RoomMeter {
    /// The free share of processors or memory, whichever is less, since the last look; none if unreadable.
    pub fn free(&mut self) -> Option<f64> {
        if self.last.is_some_and(|(at, _)| at.elapsed() < STRETCH) {
            return None;
        }
        let now = cpu_time(&read_to_string("/proc/stat").ok()?)?;
        let (_, before) = self.last.replace((Instant::now(), now))?;
        Some(idle(before, now).min(free_memory(&read_to_string("/proc/meminfo").ok()?)?))
    }
}

fn idle(before: CpuTime, now: CpuTime) -> f64 {
    let all = now.all.saturating_sub(before.all).max(1);
    now.idle.saturating_sub(before.idle) as f64 / all as f64
}

/// The first line of `/proc/stat`: user, nice, system, idle, waiting for a disk, …
fn cpu_time(stat: &str) -> Option<CpuTime> {
    let ticks = stat.lines().next()?.split_whitespace().skip(1).map(str::parse);
    // Time of guests is counted among user time already.
    let ticks: Vec<u64> = ticks.take(8).collect::<Result<_, _>>().ok()?;
    Some(CpuTime { idle: ticks.get(3)? + ticks.get(4)?, all: ticks.iter().sum() })
}

/// The share of memory that programs can still have, by `/proc/meminfo`.
fn free_memory(meminfo: &str) -> Option<f64> {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    Some(kib("MemAvailable:")? / kib("MemTotal:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_is_free() {
        let before = cpu_time("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 50 0 25 400 25 0 0 0 7 0\n").unwrap();
        assert_eq!((before.idle, before.all), (850, 1000));
        let now = CpuTime { idle: before.idle + 25, all: before.all + 100 };
        assert_eq!(idle(before, now), 0.25);
        let memory = "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    400 kB\n";
        assert_eq!(free_memory(memory), Some(0.4));
        assert!(cpu_time("").is_none() && cpu_time("cpu 1 x").is_none() && free_memory("").is_none());
        assert_eq!(RoomMeter::default().free(), None, "the first look only begins");
    }
}
