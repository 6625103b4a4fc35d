//! How large numbers may be: beyond these, nothing would come to an end. docs/running.md has the ranges, too.

use crate::refuse_option;
use crate::settings::names::BadUsage;
use crate::settings::options::RunOptions;
use fencepost_history::TimeSpan;
use std::fmt::Display;
use std::ops::RangeInclusive;

pub(crate) const MILLISECOND: TimeSpan = TimeSpan::from_millis(1);
pub(crate) const HOUR: TimeSpan = TimeSpan::from_secs(3600);
const WEEK: TimeSpan = TimeSpan::from_secs(7 * 24 * 3600);
const YEAR: TimeSpan = TimeSpan::from_secs(365 * 24 * 3600);

/// Acquires after which a run ends: no run comes to more.
const ACQUISITIONS_MAX: u64 = 1_000_000_000;

/// What one machine is trusted with. More processes are had by `--concurrency`.
const CLIENTS_MAX: usize = 50;
const NODES_MAX: usize = 50;
const CONCURRENCY_MAX: usize = 10_000;
/// Each is acquired and read once more at the end of a run.
const KEYS_MAX: usize = 10_000;
const RATES: RangeInclusive<f64> = 0.001..=1e6;
/// In MiB. Less is not enough for any interpreter.
const CLIENT_MEMORY: RangeInclusive<u32> = 32..=1 << 20;
const FAULTS_MAX: f64 = 100_000.0;

/// Runs of one combination, and plays of one scenario or one run.
pub const RUNS_MAX: usize = 10_000;
/// Runs side by side. No machine has room for more.
pub const JOBS_MAX: usize = 1000;

/// Refuses a number that is not from 1 to `most`. Errors: names the option.
pub fn check_count(option: &str, count: usize, most: usize) -> Result<(), BadUsage> {
    check_range(option, count, &(1..=most))
}

/// Refuses a value beyond its range. Errors: names the option, or the key.
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

/// Refuses a time budget that is not from 1 ms to a year. Errors: names the option.
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

impl RunOptions {
    pub(crate) fn check_numbers(&self) -> Result<(), BadUsage> {
        self.check_lengths()?;
        let counts = [
            ("--clients", self.clients, CLIENTS_MAX),
            ("--concurrency", self.concurrency, CONCURRENCY_MAX),
            ("--keys", self.keys, KEYS_MAX),
            ("--nodes", self.lock_options.nodes.unwrap_or(1), NODES_MAX),
        ];
        for (option, count, most) in counts {
            check_count(option, count, most)?;
        }
        if let Some(mib) = self.client_memory.filter(|mib| !CLIENT_MEMORY.contains(mib)) {
            let (least, most) = (CLIENT_MEMORY.start(), CLIENT_MEMORY.end());
            refuse_option!("client-memory", "--client-memory must be from {least} to {most} MiB, not {mib}");
        }
        if let Some(count) = self.acquisitions {
            check_range("--acquisitions", count, &(1..=ACQUISITIONS_MAX))?;
        }
        if self.concurrency < self.clients {
            let (count, clients) = (self.concurrency, self.clients);
            refuse_option!(
                "concurrency",
                "--concurrency {count} leaves some of the {clients} clients without a process; make it at least {clients}"
            );
        }
        if self.rate != 0.0 && !RATES.contains(&self.rate) {
            refuse_option!(
                "rate",
                "--rate {} is not from {} to {} critical sections a second (0 for no limit)",
                self.rate,
                RATES.start(),
                RATES.end()
            );
        }
        Ok(())
    }

    fn check_lengths(&self) -> Result<(), BadUsage> {
        const NONE: TimeSpan = TimeSpan::from_millis(0);
        let lock = &self.lock_options;
        let lengths = [
            ("--ttl", self.ttl, MILLISECOND, HOUR),
            ("--time-limit", self.time_limit, MILLISECOND, WEEK),
            ("--acquire-timeout", self.acquire_timeout, MILLISECOND, HOUR),
            ("--nemesis-interval", self.nemesis_interval, MILLISECOND, WEEK),
            ("--hold", self.hold.map_or(NONE, |hold| hold.longest), NONE, HOUR),
            ("--start-time", self.start_time.unwrap_or(NONE), NONE, HOUR),
            ("--storage-write-delay", self.storage_write_delay, NONE, HOUR),
            ("--retry-delay", lock.retry_delay.unwrap_or(NONE), NONE, HOUR),
            ("--lock-delay", lock.lock_delay.unwrap_or(NONE), NONE, HOUR),
        ];
        for (option, length, least, most) in lengths {
            check_length(option, length, least..=most, "2s")?;
        }
        for (name, length, range) in self.nemesis_options.lengths() {
            check_length(&format!("--{name}"), length.unwrap_or(NONE), range, "2s")?;
        }
        let faults = self.time_limit.0.as_secs_f64() / self.nemesis_interval.0.as_secs_f64();
        if faults > FAULTS_MAX && !self.nemesis.is_empty() {
            refuse_option!(
                "time-limit",
                "--time-limit {} with --nemesis-interval {} may be {faults:.0} faults of each nemesis, more than the {FAULTS_MAX} \
                 that a plan may have; make the interval longer",
                self.time_limit,
                self.nemesis_interval
            );
        }
        Ok(())
    }
}
