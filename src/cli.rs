//! The command line.

use clap::{Args, Parser, Subcommand};
use fencepost_cluster::ClockMechanism;
use fencepost_engine::{BadUsage, RunSpec};
use fencepost_history::Seed;
use fencepost_locks::{Options, PauseAt};
use fencepost_nemesis::Clock;
use fencepost_nemesis::tools::disk::Torn;
use fencepost_report::pipeline::PipelineArgs;
use fencepost_storage::StorageSetup;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Tells you, with evidence, whether your distributed lock holds.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, arg_required_else_help = true)]
pub struct Cli {
    /// Options of all commands, one table for each command; `none` reads no file [default: fencepost.toml, where there is one].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a cluster, take its lock from many clients, break the world, and judge whether the lock held.
    Test(Box<TestArgs>),
    /// Play the stories of the debate about distributed locks on real servers, and compare what is seen with what
    /// their authors say.
    Scenario(crate::scenarios::command::ScenarioArgs),
    /// Run every backend under every nemesis, and show in one matrix which promises hold.
    Compare(Box<crate::compare::command::CompareArgs>),
    /// Judge and draw a run again, from its folder alone.
    Analyze(AnalyzeArgs),
    /// Decide whether histories are possible, and explain those that are not.
    Check(crate::check::CheckArgs),
    /// Write a run's history for other tools.
    Export(crate::export::ExportArgs),
    /// Remove old runs: all with a violation stay, and the newest of each kind.
    Gc(crate::gc::GcArgs),
    /// Look around in a results folder with a browser: all runs, their reports and files, and those that go on.
    Serve(crate::serve::ServeArgs),
    /// List backends, workloads, nemeses, guards and checkers.
    List(ListArgs),
    /// Show what this machine can do, and how to get the rest.
    Doctor,
    /// Make, list and remove the images that the nodes are made of.
    Images(ImagesArgs),
    /// Write what a shell needs to complete commands and options, to standard output.
    Completions { shell: crate::manual::Shell },
    /// Write the manual page: that of the program to standard output, or those of all commands into a folder.
    Man {
        /// The folder, which must exist.
        folder: Option<PathBuf>,
    },
    /// A client of the lock under test; speaks the client protocol on standard input and output.
    #[command(hide = true)]
    Client,
    /// Kills or cuts off whoever it is told to: fencing, as `hadoop` does it.
    #[command(hide = true)]
    Fencer,
    /// Waits by the wall clock of its node; a supervisor that starts a server again.
    #[command(hide = true)]
    Supervise {
        #[arg(long)]
        down_ms: u32,
    },
    /// The storage that the lock protects.
    #[command(hide = true)]
    Storage(StorageSetup),
}

/// What a test does. The defaults are those of [`RunSpec::default`].
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The lock under test (see `fencepost list backends`).
    #[arg(long, default_value = "redlock")]
    pub backend: String,
    /// What goes wrong: one or several, separated by commas, `swarm` to have them drawn, or none (see `fencepost list nemeses`).
    #[arg(long, value_delimiter = ',', default_value = "none")]
    pub nemesis: Vec<String>,
    /// A plan of faults in TOML, in place of a drawn one (each run keeps its own as plan.toml).
    #[arg(long, value_name = "FILE", conflicts_with = "nemesis")]
    pub nemesis_file: Option<PathBuf>,
    /// What the storage checks before it accepts a write (see `fencepost list guards`).
    #[arg(long, default_value = "none")]
    pub guard: String,
    /// Repeats the random choices of the run with this seed [default: a fresh one].
    #[arg(long)]
    pub seed: Option<Seed>,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

/// What shapes a run besides its backend, nemesis, guard and seed.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What the processes do (see `fencepost list workloads`).
    #[arg(long, default_value = "increment")]
    pub workload: String,
    /// Where the nodes run: docker, local, or auto (docker if an engine answers, else local).
    #[arg(long, default_value = "auto")]
    pub driver: String,
    /// How long a storage whose guard checks and writes in two steps rests between them.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub storage_linger: Duration,
    /// Client programs, each with an address and a clock of its own.
    #[arg(long, default_value_t = 5)]
    pub clients: usize,
    /// Processes that use the lock, spread over the clients.
    #[arg(long, default_value_t = 10)]
    pub concurrency: usize,
    /// Of these, so many take the lock shared, and only read.
    #[arg(long, default_value_t = 0)]
    pub readers: usize,
    /// Locks (and counters); each critical section draws one.
    #[arg(long, default_value_t = 1)]
    pub keys: usize,
    /// Critical sections begun a second, at most, by all processes together; 0 for no limit.
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// Time to live of the lock.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub ttl: Duration,
    /// How long a critical section lasts.
    #[arg(long, default_value = "100ms", value_parser = duration)]
    pub hold: Duration,
    /// How long one acquire may try.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub acquire_timeout: Duration,
    /// How long the test lasts, before everything is healed.
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub time_limit: Duration,
    /// End the fault phase as soon as this many acquires have succeeded, even before the time limit.
    #[arg(long, value_name = "COUNT")]
    pub acquisitions: Option<u64>,
    /// Mean time between the end of a fault and the next one of its kind.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub nemesis_interval: Duration,
    /// Which clocks go wrong: the time of day, the monotonic clock that time-outs are counted by, or both.
    #[arg(long, value_enum, default_value = "wall")]
    pub clock: ClockArg,
    /// How far clocks jump [default: drawn, from half the TTL to 300 times].
    #[arg(long, value_parser = duration)]
    pub clock_amplitude: Option<Duration>,
    /// How much faster or slower drifting clocks run, in millionths [default: drawn, from a tenth to fifty times].
    #[arg(long, value_name = "PPM", value_parser = clap::value_parser!(u32).range(1..=99_000_000))]
    pub clock_drift_ppm: Option<u32>,
    /// How the servers' clocks are moved: vdso patches the running program, faketime preloads libfaketime [default: what
    /// suits the program].
    #[arg(long, value_enum, default_value = "auto")]
    pub clock_mechanism: MechanismArg,
    /// How long servers that were killed or lost their power stay down [default: drawn, from at once to past the TTL].
    #[arg(long, value_parser = duration)]
    pub restart_after: Option<Duration>,
    /// What a loss of power leaves of what was not fsynced: a `prefix` of each file, or any of its `sectors` [default:
    /// nothing].
    #[arg(long, value_parser = torn)]
    pub torn_writes: Option<Torn>,
    /// Whom partitions cut off from whom: `c1|n4,n5` both ways, `c1>n4` and `c1<n4` one way [default: drawn].
    #[arg(long, value_name = "GROUPS")]
    pub partition: Option<String>,
    /// Clients look at the validity of their lock before each write and release.
    #[arg(long)]
    pub careful: bool,
    /// Stop at the first violation.
    #[arg(long)]
    pub fail_fast: bool,
    /// Folder of all runs.
    #[arg(long, default_value = "results")]
    pub results: PathBuf,
    /// For directed runs: stay that long at that point of the recipe, so that a plan's strike lands there.
    #[arg(long, value_name = "POINT=TIME", value_delimiter = ',', hide = true)]
    pub linger: Vec<PauseAt>,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ClockArg {
    Wall,
    Monotonic,
    Both,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum MechanismArg {
    Auto,
    Vdso,
    Faketime,
}

#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// The run's folder: results/latest, for instance.
    pub run: PathBuf,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// backends, workloads, nemeses, guards or checkers [default: all].
    pub what: Option<String>,
}

#[derive(Debug, Args)]
pub struct ImagesArgs {
    #[command(subcommand)]
    pub command: ImagesCommand,
}

#[derive(Debug, Subcommand)]
pub enum ImagesCommand {
    /// Make the images that are not there yet.
    Build {
        /// Names of images [default: all].
        names: Vec<String>,
    },
    /// List images and unpacked root file systems.
    List,
    /// Remove all images and root file systems of Fencepost.
    Remove,
}

/// `2s`, `500ms`, `1m30s`; a plain number counts seconds.
fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{text}` is no length of time"));
    }
    humantime::parse_duration(text)
        .map_err(|_| format!("`{text}` is no length of time; write 2s, 500ms or 1m30s"))
}

fn torn(text: &str) -> Result<Torn, String> {
    match text {
        "prefix" => Ok(Torn::Prefix),
        "sectors" => Ok(Torn::Sectors),
        _ => Err("it is either prefix or sectors".to_owned()),
    }
}

impl TestArgs {
    /// The spec that these arguments ask for. A seed is drawn where none is given.
    pub fn spec(&self) -> Result<RunSpec, BadUsage> {
        let nemesis: Vec<String> = self.nemesis.iter().filter(|name| *name != "none").cloned().collect();
        if nemesis.len() < self.nemesis.len() && !nemesis.is_empty() {
            return Err(BadUsage(format!(
                "--nemesis none goes with no other; leave it out to get {}",
                nemesis.join(",")
            )));
        }
        let seed = self.seed.unwrap_or_else(Seed::fresh);
        let spec = self.run.spec(&self.backend, nemesis, &self.guard, seed);
        Ok(RunSpec { nemesis_file: self.nemesis_file.clone(), ..spec })
    }
}

impl RunArgs {
    /// The spec of a run with these settings.
    pub fn spec(&self, backend: &str, nemesis: Vec<String>, guard: &str, seed: Seed) -> RunSpec {
        RunSpec {
            scenario: None,
            backend: backend.to_owned(),
            workload: self.workload.clone(),
            nemesis,
            nemesis_file: None,
            driver: self.driver.clone(),
            guard: guard.to_owned(),
            storage_linger_ms: millis(self.storage_linger),
            seed,
            clients: self.clients,
            concurrency: self.concurrency,
            readers: self.readers,
            keys: self.keys,
            rate: self.rate,
            ttl_ms: millis(self.ttl),
            hold_ms: millis(self.hold),
            acquire_timeout_ms: millis(self.acquire_timeout),
            time_limit_ms: millis(self.time_limit),
            acquisitions: self.acquisitions,
            nemesis_interval_ms: millis(self.nemesis_interval),
            clock: match self.clock {
                ClockArg::Wall => Clock::Wall,
                ClockArg::Monotonic => Clock::Monotonic,
                ClockArg::Both => Clock::Both,
            },
            clock_amplitude_ms: self.clock_amplitude.map(millis),
            clock_drift_ppm: self.clock_drift_ppm.and_then(NonZeroU32::new),
            clock_mechanism: match self.clock_mechanism {
                MechanismArg::Auto => None,
                MechanismArg::Vdso => Some(ClockMechanism::Vdso),
                MechanismArg::Faketime => Some(ClockMechanism::Faketime),
            },
            restart_after_ms: self.restart_after.map(millis),
            torn_writes: self.torn_writes,
            partition: self.partition.clone(),
            careful: self.careful,
            fail_fast: self.fail_fast,
            linger: self.linger.clone(),
            options: self.options.clone(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
