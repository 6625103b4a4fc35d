//! Fencepost: tells you, with evidence, whether your distributed lock holds.
//!
//! This is the program as a library, so that benchmarks and tests can reach its parts. `ARCHITECTURE.md` is the map.

mod agent_tools;
mod analyze;
mod check;
mod cli;
mod compare;
mod config;
mod doctor;
mod export;
mod gc;
mod list;
mod live;
mod manual;
mod repeat;
mod scenarios;
pub mod serve;
mod test;
#[cfg(test)]
mod testing;

/// Prints a line. Whoever reads may have gone (`| head`): the run and its clean-up go on all the same.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}
pub(crate) use say;

use clap::Parser;
use cli::{Cli, Command};
use fencepost_engine::BadUsage;
use fencepost_history::run::RunError;
use std::io::Write;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::{Layer, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Exit codes, as in Jepsen. 0, 1 and 2 are an outcome's own.
const BAD_USAGE: i32 = 254;
const FAILED: i32 = 255;

/// Runs the program and gives its exit code.
pub fn main() -> i32 {
    // Agents and sandboxes make namespaces, which needs a process with a single thread: before anything else.
    if let Some(code) = fencepost_cluster::run_internal_command(agent_tools::all) {
        return code;
    }
    let arguments = match config::arguments() {
        Ok(arguments) => arguments,
        Err(mistake) => {
            eprintln!("fencepost: {mistake}");
            return BAD_USAGE;
        }
    };
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { BAD_USAGE } else { 0 };
        }
    };
    log_to_stderr();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            let _ = std::io::stdout().flush();
            eprintln!("fencepost: {error:#}");
            if is_bad_usage(&error) { BAD_USAGE } else { FAILED }
        }
    }
}

fn is_bad_usage(error: &anyhow::Error) -> bool {
    error.is::<BadUsage>() || matches!(error.downcast_ref(), Some(RunError::NotARun(_)))
}

fn dispatch(command: Command) -> anyhow::Result<i32> {
    match command {
        Command::Test(args) => test::test(&args),
        Command::Scenario(args) => scenarios::command::scenario(&args),
        Command::Compare(args) => compare::command::compare(&args),
        Command::Analyze(args) => analyze::analyze(&args),
        Command::Check(args) => check::check(&args),
        Command::Export(args) => export::export(&args),
        Command::Gc(args) => gc::gc(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::List(args) => list::list(args.what.as_deref()),
        Command::Doctor => runtime()?.block_on(doctor::doctor()),
        Command::Images(args) => runtime()?.block_on(list::images(args.command)),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::man(folder.as_deref()),
        Command::Supervise { down_ms } => {
            fencepost_nemesis::supervise(down_ms);
            Ok(0)
        }
        Command::Fencer => Ok(small_runtime()?.block_on(fencepost_locks::run_fencer())),
        Command::Client => Ok(small_runtime()?.block_on(fencepost_locks::run_client())),
        Command::Storage(setup) => Ok(small_runtime()?
            .block_on(fencepost_storage::run_storage(&setup, fencepost_locks::connect_sequencers))),
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// For programs inside nodes: many of them share a few cores.
fn small_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Warnings of Fencepost's own parts; `RUST_LOG` asks for more.
fn log_to_stderr() {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|wanted| wanted.parse().ok());
    let filter = wanted.unwrap_or_else(|| Targets::new().with_target("fencepost", Level::WARN));
    let lines = fmt::layer().with_writer(std::io::stderr).without_time().with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}
