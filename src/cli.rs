//! The command line.

use crate::commands::analyze::AnalyzeArgs;
use crate::commands::check::CheckArgs;
use crate::commands::compare::CompareArgs;
use crate::commands::export::ExportArgs;
use crate::commands::gc::GcArgs;
use crate::commands::hunt::HuntArgs;
use crate::commands::images::ImagesArgs;
use crate::commands::list::ListArgs;
use crate::commands::lock::LockArgs;
use crate::commands::manual::Shell;
use crate::commands::merge::MergeArgs;
use crate::commands::replay::ReplayArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::shrink::ShrinkArgs;
use crate::commands::test::TestArgs;
use crate::commands::upload::UploadArgs;
use clap::{Parser, Subcommand};
use fencepost_storage::StorageSetup;
use std::path::PathBuf;

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
    /// Start a cluster, take its lock from many clients, inject faults, and judge whether the lock held.
    Test(Box<TestArgs>),
    /// Play scenarios of the debate about distributed locks on real servers, and compare the outcome with what
    /// their authors say.
    Scenario(crate::commands::scenario::ScenarioArgs),
    /// Run every lock under every nemesis, and show in one matrix which properties hold.
    Compare(Box<CompareArgs>),
    /// Search for the faults that break a lock: play many short schedules, learn from each, keep what is found.
    Hunt(Box<HuntArgs>),
    /// Make one result of the parts of a comparison, of scenarios or of a hunt that `--shard` made.
    Merge(MergeArgs),
    /// Judge a run again and draw its report, from its folder alone.
    Analyze(AnalyzeArgs),
    /// Play a run again several times, and say how often it shows a violation.
    Replay(ReplayArgs),
    /// Make a run with a violation as small as it can be, and keep it as a scenario with its report.
    Shrink(ShrinkArgs),
    /// Decide whether histories are possible, and explain those that are not.
    Check(CheckArgs),
    /// Write a run's history for other tools.
    Export(ExportArgs),
    /// Remove old runs: all with a violation stay, and the newest of each kind.
    Gc(GcArgs),
    /// Send results to an object store.
    Upload(UploadArgs),
    /// Remove all that runs left on this machine whose program was killed.
    Clean,
    /// Show a results folder in a browser: all runs, finished and running, with their reports and files.
    Serve(ServeArgs),
    /// List locks, workloads, nemeses, guards and checkers.
    List(ListArgs),
    /// Begin a lock of your own, and check its client.
    Lock(LockArgs),
    /// Show what this machine can do, and how to get the rest.
    Doctor,
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
    /// The storage that the lock protects.
    #[command(hide = true)]
    Storage(StorageSetup),
}
