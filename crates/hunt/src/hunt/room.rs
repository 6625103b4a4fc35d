//! Whether this machine has room for one more schedule beside those that are played.

use std::fs::read_to_string;
use std::time::{Duration, Instant};

/// Shorter stretches say little: a schedule computes as it starts, and waits afterwards.
const STRETCH: Duration = Duration::from_secs(1);

/// One more is played while this share of the processors' time, and of the memory, is free.
const FREE: f64 = 0.25;
/// One less, while no more than this share is.
const FULL: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    More,
    Enough,
    TooMany,
}

/// Looks at the machine now and then.
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
    /// What the time since the last look says; `Enough` for as long as it is too short, or cannot be read.
    pub fn look(&mut self) -> Room {
        if self.last.is_some_and(|(at, _)| at.elapsed() < STRETCH) {
            return Room::Enough;
        }
        let Some(now) = cpu_time(&read_to_string("/proc/stat").unwrap_or_default()) else {
            return Room::Enough;
        };
        let last = self.last.replace((Instant::now(), now));
        let memory = free_memory(&read_to_string("/proc/meminfo").unwrap_or_default());
        last.map_or(Room::Enough, |(_, before)| room(before, now, memory.unwrap_or(0.0)))
    }
}

fn room(before: CpuTime, now: CpuTime, free_memory: f64) -> Room {
    let all = now.all.saturating_sub(before.all).max(1);
    let idle = now.idle.saturating_sub(before.idle) as f64 / all as f64;
    match idle.min(free_memory) {
        free if free >= FREE => Room::More,
        free if free <= FULL => Room::TooMany,
        _ => Room::Enough,
    }
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

    const STAT: &str = "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 50 0 25 400 25 0 0 0 7 0\n";
    const MEMINFO: &str = "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    400 kB\n";

    fn after(busy: u64, idle: u64) -> Room {
        let before = cpu_time(STAT).unwrap();
        let now = CpuTime { idle: before.idle + idle, all: before.all + busy + idle };
        room(before, now, free_memory(MEMINFO).unwrap())
    }

    #[test]
    fn idle_processors_have_room_and_busy_ones_have_none() {
        assert_eq!((cpu_time(STAT).unwrap().idle, cpu_time(STAT).unwrap().all), (850, 1000));
        assert_eq!([after(75, 25), after(76, 24), after(95, 5)], [Room::More, Room::Enough, Room::TooMany]);
    }

    #[test]
    fn memory_limits_as_processors_do() {
        let before = cpu_time(STAT).unwrap();
        let idle = CpuTime { idle: before.idle + 100, all: before.all + 100 };
        assert_eq!([room(before, idle, 0.2), room(before, idle, 0.0)], [Room::Enough, Room::TooMany]);
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        assert!(cpu_time("").is_none() && cpu_time("cpu 1 x").is_none() && free_memory("").is_none());
        assert_eq!(RoomMeter::default().look(), Room::Enough);
    }
}
