//! What a run is to do: the command line, validated and whole, as it is kept in `run.toml`.

use fencepost_cluster::ClockMechanism;
use fencepost_history::Seed;
use fencepost_history::run::RunSettings;
use fencepost_locks::{Options, PauseAt};
use fencepost_nemesis::tools::disk::Torn;
use fencepost_nemesis::{Clock, SWARM};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that shapes a run. Two runs of one spec have the same plan: who does what, which fault strikes when.
/// What real servers make of it is not repeatable to the microsecond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunSpec {
    /// The scenario and the number of its act, where it is one: `redis-clock-jump-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    pub backend: String,
    pub workload: String,
    /// Names of nemeses; empty for none.
    pub nemesis: Vec<String>,
    /// A plan written by hand, or kept by an earlier run, in place of drawn ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nemesis_file: Option<PathBuf>,
    /// `auto`, `docker` or `local`, as asked for.
    pub driver: String,
    pub guard: String,
    /// How long a guard that checks and writes in two steps rests between them.
    #[serde(default)]
    pub storage_linger_ms: u64,
    pub seed: Seed,
    pub clients: usize,
    /// Number of logical processes, spread over the clients.
    pub concurrency: usize,
    /// Of these, so many take the lock shared, and only read.
    #[serde(default)]
    pub readers: usize,
    pub keys: usize,
    /// Critical sections begun a second, at most, by all processes together; 0: no limit.
    pub rate: f64,
    pub ttl_ms: u64,
    pub hold_ms: u64,
    pub acquire_timeout_ms: u64,
    pub time_limit_ms: u64,
    /// The fault phase ends when this many acquires have succeeded, or at the time limit; none: at the time limit only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquisitions: Option<u64>,
    pub nemesis_interval_ms: u64,
    /// Which clocks go wrong.
    #[serde(default)]
    pub clock: Clock,
    /// Size of clock jumps; none: drawn around the TTL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_amplitude_ms: Option<u64>,
    /// How much clocks drift; none: drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_drift_ppm: Option<NonZeroU32>,
    /// By what the servers' clocks are moved; none: by what suits their program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_mechanism: Option<ClockMechanism>,
    /// How long servers that were killed or lost their power stay down; none: drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_after_ms: Option<u64>,
    /// What a loss of power leaves of what was not fsynced; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn_writes: Option<Torn>,
    /// Whom partitions cut off from whom; none: drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    pub careful: bool,
    pub fail_fast: bool,
    /// Points of the recipe at which clients say so and stay, for plans that strike there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linger: Vec<PauseAt>,
    pub options: Options,
}

impl RunSpec {
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    pub fn time_limit(&self) -> Duration {
        Duration::from_millis(self.time_limit_ms)
    }

    /// What the workload is told for the process in this slot.
    pub fn workload_settings(&self, slot: usize) -> fencepost_workloads::Settings {
        let hold = Duration::from_millis(self.hold_ms);
        // Without a rate, processes rest between sections about as long as a section takes, so that the lock is
        // contended and no process keeps it all to itself.
        let pause =
            if self.rate > 0.0 { Duration::from_secs_f64(self.concurrency as f64 / self.rate) } else { hold };
        fencepost_workloads::Settings { keys: self.keys, hold, pause, reader: slot < self.readers }
    }

    /// Whether the nemeses themselves are drawn, too.
    pub fn is_swarm(&self) -> bool {
        self.nemesis.iter().any(|name| name == SWARM)
    }

    /// The settings as the folder of a run keeps them.
    pub fn settings(&self) -> RunSettings {
        RunSettings::of(self).expect("a spec has all settings of a run")
    }
}
