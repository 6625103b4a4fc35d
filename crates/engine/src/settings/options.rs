//! The options of a run: one type for command line, `fencepost.toml`, `run.toml` and scenarios.

use crate::settings::existing_options::ExistingOptions;
use crate::settings::names::name_in_list;
use crate::settings::section_length::SectionLength;
use clap::{Args, Command, FromArgMatches};
use fencepost_history::run::{RunFile, RunSettings, now};
use fencepost_history::{Seed, TimeSpan};
use fencepost_locks::{Options, PauseAt};
use fencepost_nemesis::{NemesisOptions, SWARM};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Everything that shapes a run, as requested: not validated yet. Two runs of the same options have the same
/// plan, and the same choices of every process; the interleaving on real servers still differs.
#[derive(Clone, Debug, PartialEq, Args, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct RunOptions {
    /// The scenario and the number of its run, where it is one: `redis-clock-jump-1`.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The lock under test: a name (see `fencepost list locks`), or a folder with a lock.toml,
    /// `FOLDER[@VARIANT]`.
    #[arg(long, visible_alias = "backend", default_value = "redlock")]
    pub lock: String,
    /// Command line of a client program of your own, which uses the servers of --lock.
    #[arg(long, value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Folder with the files of --client, in which it runs.
    #[arg(long, value_name = "FOLDER", requires = "client")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_files: Option<PathBuf>,
    /// Debian packages that --client needs, separated by commas [default: the programs of this machine].
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',', requires = "client")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_packages: Vec<String>,
    /// Limit of memory of each client and everything that it starts, in MiB [default: 2048].
    #[arg(long, value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_memory: Option<u32>,
    /// Options of a lock of your own (its lock.toml lists them), separated by commas.
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub option: Vec<String>,
    /// Nemeses, separated by commas; `swarm` draws some, `none` injects no fault (see
    /// `fencepost list nemeses`).
    #[arg(long, value_delimiter = ',', value_parser = name_in_list, default_value = "none")]
    pub nemesis: Vec<String>,
    /// A plan of faults in TOML, in place of a drawn one (each run keeps its own as plan.toml).
    #[arg(long, value_name = "FILE", conflicts_with = "nemesis")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nemesis_file: Option<PathBuf>,
    /// The check of the storage before it accepts a write (see `fencepost list guards`).
    #[arg(long, default_value = "none")]
    pub guard: String,
    /// Seed of all random choices: the same seed draws the same plan [default: a fresh one].
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The workload of the processes (see `fencepost list workloads`).
    #[arg(long, default_value = "increment")]
    pub workload: String,
    /// Where the nodes run: docker, local, or auto (docker if an engine answers, else local).
    #[arg(long, default_value = "auto")]
    pub driver: String,
    /// Pause of the storage between check and write, for guards that do them in two steps.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub storage_write_delay: TimeSpan,
    /// Client programs, each with its own address and clock.
    #[arg(long, default_value_t = 5)]
    pub clients: usize,
    /// Processes that use the lock, spread over the clients.
    #[arg(long, default_value_t = 10)]
    pub concurrency: usize,
    /// How many of the --concurrency processes take a read-write lock in shared mode and only read; with the
    /// workload read-write, half of them unless given.
    #[arg(long, default_value_t = 0)]
    pub readers: usize,
    /// Permits of a semaphore [default: 3].
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// Locks (and counters); each critical section draws one.
    #[arg(long, default_value_t = 1)]
    pub keys: usize,
    /// Limit of critical sections begun per second, by all processes together; 0 for no limit.
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// Time to live of the lock.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub ttl: TimeSpan,
    /// Length of every critical section, or the shortest and the longest (50ms..4s) [default: drawn for each,
    /// most short, some almost as long as the TTL].
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<SectionLength>,
    /// Time limit of one acquire.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub acquire_timeout: TimeSpan,
    /// Length of the fault phase.
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub time_limit: TimeSpan,
    /// End the fault phase as soon as this many acquires have succeeded, even before the time limit.
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquisitions: Option<u64>,
    /// Mean time between the end of a fault and the next one of its kind.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub nemesis_interval: TimeSpan,
    #[command(flatten)]
    #[serde(flatten)]
    pub existing: ExistingOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub nemesis_options: NemesisOptions,
    /// Clients check the validity of their lock before each write and release.
    #[arg(long)]
    pub careful: bool,
    /// Clients connect to servers by name (n1:6379), which their nodes resolve, and not by address.
    #[arg(long)]
    #[serde(skip_serializing_if = "is_false")]
    pub by_name: bool,
    /// Operations whose callers give up some calls in the middle: acquire, release, prolong.
    #[arg(long, value_name = "OPERATION", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cancel: Vec<String>,
    /// Stop at the first violation.
    #[arg(long)]
    pub fail_fast: bool,
    /// End each phase as soon as what it is for has come about: for the short runs of a hunt.
    #[arg(long, hide = true)]
    #[serde(skip_serializing_if = "is_false")]
    pub brief: bool,
    /// Time that each client has to start, at least: for hunts on a machine that is busy.
    #[arg(long, value_name = "TIME", hide = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<TimeSpan>,
    /// Pause of a client at a point of its recipe, for plans that wait for it.
    #[arg(long, value_name = "POINT=TIME", value_delimiter = ',', hide = true)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pause_at: Vec<PauseAt>,
    #[command(flatten)]
    #[serde(flatten)]
    pub lock_options: Options,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        static DEFAULT: LazyLock<RunOptions> = LazyLock::new(|| {
            let call = RunOptions::augment_args(Command::new("test")).try_get_matches_from(["test"]);
            let options = call.and_then(|matches| RunOptions::from_arg_matches(&matches));
            RunOptions { nemesis: Vec::new(), ..options.expect("no option is required") }
        });
        DEFAULT.clone()
    }
}

impl RunOptions {
    /// Whether the nemeses themselves are drawn, too.
    pub fn is_swarm(&self) -> bool {
        self.nemesis.iter().any(|name| name == SWARM)
    }

    /// `run.toml` of a run that starts now; `command` repeats it.
    pub fn run_file(&self, command: String) -> RunFile {
        RunFile {
            fencepost: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            settings: self.distinguishing_arguments(),
            started: now(),
            driver: self.driver.clone(),
            engine: String::new(),
            servers: Vec::new(),
            lock: None,
            spec: self.settings(),
        }
    }

    /// The settings as the folder of a run keeps them. The options are those of a [`crate::RunSpec`].
    pub fn settings(&self) -> RunSettings {
        RunSettings::of(self).expect("validated options have a seed, and all other settings")
    }
}

fn is_false(switch: &bool) -> bool {
    !switch
}
