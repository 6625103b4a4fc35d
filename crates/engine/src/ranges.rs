//! How large numbers may be: beyond these, nothing would come to an end. docs/running.md has the ranges, too.

use crate::names::BadUsage;
use fencepost_history::TimeSpan;
use std::fmt::Display;
use std::ops::RangeInclusive;

pub(crate) const MILLISECOND: TimeSpan = TimeSpan::from_millis(1);
pub(crate) const HOUR: TimeSpan = TimeSpan::from_secs(3600);
pub(crate) const WEEK: TimeSpan = TimeSpan::from_secs(7 * 24 * 3600);
const YEAR: TimeSpan = TimeSpan::from_secs(365 * 24 * 3600);

/// Acquires after which a run ends: no run comes to more.
pub(crate) const ACQUISITIONS_MAX: u64 = 1_000_000_000;

/// Runs of one combination, and plays of one scenario or one run.
pub const RUNS_MAX: usize = 10_000;
/// Runs side by side. No machine has room for more.
pub const JOBS_MAX: usize = 1000;

/// Refuses a number that is not from 1 to `most`.
///
/// # Errors
/// One sentence that names the option.
pub fn check_count(option: &str, count: usize, most: usize) -> Result<(), BadUsage> {
    check_range(option, count, &(1..=most))
}

/// Refuses a value beyond its range.
///
/// # Errors
/// One sentence that names the option, or the key.
pub fn check_range<T: PartialOrd + Display>(
    name: &str,
    given: T,
    range: &RangeInclusive<T>,
) -> Result<(), BadUsage> {
    match range.contains(&given) {
        true => Ok(()),
        false => Err(BadUsage {
            key: name.strip_prefix("--").map(str::to_owned),
            sentence: format!("{name} must be from {} to {}, not {given}", range.start(), range.end()),
        }),
    }
}

/// Refuses a time that a command is to take and that is not from 1 ms to a year.
///
/// # Errors
/// One sentence that names the option.
pub fn check_budget(option: &str, budget: TimeSpan) -> Result<(), BadUsage> {
    check_length(option, budget, MILLISECOND..=YEAR, "10m")
}

/// Refuses a time beyond its range; `example` is one within.
pub(crate) fn check_length(
    option: &str,
    length: TimeSpan,
    range: RangeInclusive<TimeSpan>,
    example: &str,
) -> Result<(), BadUsage> {
    check_range(option, length, &range)
        .map_err(|refused| BadUsage { sentence: format!("{refused}; try `{option} {example}`"), ..refused })
}
