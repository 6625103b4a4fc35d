//! The command line.

use crate::commands::analyze::AnalyzeArgs;
use crate::commands::check::CheckArgs;
use crate::commands::clock::ClockArgs;
use crate::commands::compare::CompareArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::explain::ExplainArgs;
use crate::commands::export::ExportArgs;
use crate::commands::faults::{FaultArgs, HealArgs, WhichCluster};
use crate::commands::gc::GcArgs;
use crate::commands::hunt::HuntArgs;
use crate::commands::images::ImagesArgs;
use crate::commands::list::ListArgs;
use crate::commands::lock::LockArgs;
use crate::commands::manual::Shell;
use crate::commands::merge::MergeArgs;
use crate::commands::replay::ReplayArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::shell::ShellArgs;
use crate::commands::shrink::ShrinkArgs;
use crate::commands::test::TestArgs;
use crate::commands::up::UpArgs;
use crate::commands::upload::UploadArgs;
use clap::{Parser, Subcommand};
use fencepost_storage::StorageSetup;
use std::path::PathBuf;

/// Tells you, with evidence, whether your distributed lock holds.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, arg_required_else_help = true)]
pub struct Cli {
    /// File of options, with one table for each command; `none` reads no file [default: fencepost.toml, if
    /// there is one].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Subcommands,
}

#[derive(Debug, Subcommand)]
pub enum Subcommands {
    /// Start a cluster, take its lock from many clients, inject faults, and judge whether the lock held.
    Test(Box<TestArgs>),
    /// Play scenarios of the debate about distributed locks on real servers, and compare the outcome with
    /// what their authors say.
    Scenario(crate::commands::scenario::ScenarioArgs),
    /// Run every lock under every nemesis, and show in one matrix which properties hold.
    Compare(Box<CompareArgs>),
    /// Search for the faults that break a lock: play many short schedules, learn from each, keep what is
    /// found.
    Hunt(Box<HuntArgs>),
    /// Merge the parts that `--shard` made, of a comparison, of scenarios or of a hunt, into one result.
    Merge(MergeArgs),
    /// Judge a run again and draw its report, from its folder alone.
    Analyze(AnalyzeArgs),
    /// Walk through the proof of each violation of a run, event by event.
    Explain(ExplainArgs),
    /// Play a run again several times, and say how often it shows a violation.
    Replay(ReplayArgs),
    /// Find the smallest run that still shows a violation, and keep it as a scenario with its report.
    Shrink(ShrinkArgs),
    /// Decide whether histories are linearizable, and explain those that are not.
    Check(CheckArgs),
    /// Write a run's history for other tools.
    Export(ExportArgs),
    /// Remove old runs, except those with a violation and the newest of each kind.
    Gc(GcArgs),
    /// Send results to an object store.
    Upload(UploadArgs),
    /// Remove everything that killed runs left on this machine.
    Clean,
    /// Show a results folder in a browser: all runs, finished and running, with their reports and files.
    Serve(ServeArgs),
    /// List locks, workloads, nemeses, guards and checkers.
    List(ListArgs),
    /// Make the folder of a lock of your own, or check its client.
    Lock(LockArgs),
    /// Start the servers of a lock for tests of your own, which reach them at ports of this machine.
    Up(UpArgs),
    /// Inject a fault into servers that `fencepost up` started, or into a process of this machine.
    Fault(FaultArgs),
    /// Heal a fault of servers that `fencepost up` started, or all.
    Heal(HealArgs),
    /// List the faults of servers that `fencepost up` started, and what was observed of each.
    Faults(WhichCluster),
    /// Take down servers that `fencepost up` started.
    Down(WhichCluster),
    /// Open a shell in a node of servers that `fencepost up` started, or run a command there.
    Shell(ShellArgs),
    /// Look at the clocks of a program that runs on this machine, and move them.
    Clock(ClockArgs),
    /// Show which drivers and faults work on this machine, and how to enable the others.
    Doctor(DoctorArgs),
    /// Make, list and remove the images that the nodes are made of.
    Images(ImagesArgs),
    /// Print the completions of commands and options for a shell.
    Completions { shell: Shell },
    /// Print the manual page of the program, or write those of all commands into a folder.
    Man {
        /// The folder, which must exist.
        folder: Option<PathBuf>,
    },
    /// A client of the lock under test; speaks the client protocol on standard input and output.
    #[command(hide = true)]
    Client,
    /// Fences clients on request, as `hadoop` does: kills them, or cuts them off.
    #[command(hide = true)]
    Fence,
    /// Waits by the wall clock of its node; a supervisor that starts a server again.
    #[command(hide = true)]
    Supervise {
        #[arg(long)]
        down_ms: u32,
    },
    /// Wakes a process if its input ends without a word: `fencepost fault --pid` was killed.
    #[command(hide = true)]
    Wake {
        #[arg(long)]
        pid: i32,
    },
    /// The storage that the lock protects.
    #[command(hide = true)]
    Storage(StorageSetup),
}
