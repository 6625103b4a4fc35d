//! The clock by which a client measures how long its lease still runs.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock by which a client measures how long a lease still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientClock {
    /// CLOCK_MONOTONIC, which cannot be set.
    #[default]
    Monotonic,
    /// The time of day, which can jump.
    Wall,
}

/// What a client's clock showed: the time since its beginning, whenever that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reading(Duration);

impl ClientClock {
    pub(crate) fn now(self) -> Reading {
        static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
        Reading(match self {
            // What is set before 1970 by a jump counts as 1970.
            ClientClock::Wall => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            ClientClock::Monotonic => BEGINNING.elapsed(),
        })
    }

    pub(crate) fn millis_until(self, end: Reading) -> u64 {
        whole_millis(end.0.saturating_sub(self.now().0))
    }

    pub(crate) fn is_before(self, end: Reading) -> bool {
        self.now() < end
    }
}

impl std::ops::Add<Duration> for Reading {
    type Output = Reading;
    fn add(self, time: Duration) -> Reading {
        Reading(self.0 + time)
    }
}

/// Whole milliseconds left; 0 where the time is over.
pub(crate) fn millis_until(end: tokio::time::Instant) -> u64 {
    whole_millis(end.saturating_duration_since(tokio::time::Instant::now()))
}

pub(crate) fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
