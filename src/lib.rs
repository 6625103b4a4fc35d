//! Fencepost: tells you, with evidence, whether your distributed lock holds.
//!
//! The program as a library, so that benchmarks and tests reach its parts. `ARCHITECTURE.md` is the map.

mod agent_tools;
mod cli;
mod commands;
mod config;
mod examples;
mod exit;
pub mod fuzzing;
mod open_files;
mod output;
mod panics;
mod runtime;
mod store;
mod suggestions;
#[cfg(test)]
mod testing;
mod unwritten;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Subcommands};
use commands::{analyze, check, compare, doctor, export, gc, images, list, manual, serve, test};
use console::style;
use exit::{BAD_USAGE, FAILED};
use fencepost_checker::Malformed;
use fencepost_engine::BadUsage;
use fencepost_history::HistoryError;
use fencepost_history::run::RunError;
use log::Level;
use output::{complain, shortened};
use runtime::{runtime, small_runtime};
use std::borrow::Cow;
use std::io::Write;

/// Runs the program and gives its exit code.
pub fn main() -> i32 {
    panics::caught(run)
}

fn run() -> i32 {
    // Some internal commands need a process with a single thread: before anything else.
    if let Some(code) = fencepost_cluster::run_internal_command(agent_tools::all) {
        return code;
    }
    fencepost_history::run::fail_writes_beyond_limits();
    open_files::raise_limit();
    let arguments = match config::arguments(&Cli::command()) {
        Ok(arguments) => arguments,
        Err(mistake) => {
            complain!("fencepost: {}", shortened(&mistake.to_string()));
            return BAD_USAGE;
        }
    };
    let parsed = examples::shown(Cli::command()).try_get_matches_from(arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let error = suggestions::with_suggestion(error);
            let text = error.to_string();
            match shortened(&text) {
                // Not what was asked for: help, and the version.
                Cow::Owned(text) if error.use_stderr() => complain!("{text}"),
                _ => drop(error.print()),
            }
            return if error.use_stderr() { BAD_USAGE } else { 0 };
        }
    };
    log_to_stderr();
    match dispatch(cli.command) {
        // A violation stays one.
        Ok(code) if code != 1 => match output::failure() {
            Some(error) => {
                complain!("fencepost: cannot write to standard output: {error}");
                FAILED
            }
            None => code,
        },
        Ok(code) => code,
        Err(error) => {
            let _ = std::io::stdout().flush();
            let sentence = format!("{error:#}");
            complain!("fencepost: {}{}", shortened(&sentence), open_files::advice(&sentence));
            if is_bad_usage(&error) { BAD_USAGE } else { FAILED }
        }
    }
}

fn is_bad_usage(error: &anyhow::Error) -> bool {
    error.is::<BadUsage>()
        || matches!(error.downcast_ref(), Some(RunError::NotARun(_) | RunError::Malformed { .. }))
        || matches!(error.downcast_ref(), Some(HistoryError::Malformed { .. }))
        || error.is::<Malformed>()
}

fn dispatch(command: Subcommands) -> anyhow::Result<i32> {
    match command {
        Subcommands::Test(args) => test::test(&args),
        Subcommands::Scenario(args) => commands::scenario::scenario(&args),
        Subcommands::Compare(args) => compare::compare(&args),
        Subcommands::Hunt(args) => commands::hunt::hunt(&args),
        Subcommands::Merge(args) => commands::merge::merge(&args),
        Subcommands::Analyze(args) => analyze::analyze(&args),
        Subcommands::Explain(args) => commands::explain::explain(&args),
        Subcommands::Replay(args) => commands::replay::replay(&args),
        Subcommands::Shrink(args) => commands::shrink::shrink(&args),
        Subcommands::Check(args) => check::check(&args),
        Subcommands::Export(args) => export::export(&args),
        Subcommands::Gc(args) => gc::gc(&args),
        Subcommands::Serve(args) => serve::serve(&args),
        Subcommands::List(args) => list::list(&args.what),
        Subcommands::Lock(args) => commands::lock::lock(args),
        Subcommands::Upload(args) => commands::upload::upload(&args),
        Subcommands::Clean => runtime()?.block_on(commands::clean::clean()),
        Subcommands::Up(args) => commands::up::up(&args),
        Subcommands::Fault(args) => commands::faults::fault(&args),
        Subcommands::Heal(args) => commands::faults::heal(&args),
        Subcommands::Faults(cluster) => commands::faults::faults(&cluster),
        Subcommands::Down(cluster) => commands::faults::down(&cluster),
        Subcommands::Shell(args) => commands::shell::shell(&args),
        Subcommands::Clock(args) => commands::clock::clock(&args),
        Subcommands::Doctor(args) => runtime()?.block_on(doctor::doctor(&args)),
        Subcommands::Images(args) => runtime()?.block_on(images::images(args.command)),
        Subcommands::Completions { shell } => manual::completions(shell, Cli::command()),
        Subcommands::Man { folder } => manual::man(folder.as_deref(), &Cli::command()),
        Subcommands::Wake { pid } => commands::fault_of_process::wake(pid),
        Subcommands::Supervise { down_ms } => {
            fencepost_nemesis::supervise(down_ms);
            Ok(0)
        }
        Subcommands::Fence => Ok(small_runtime()?.block_on(fencepost_locks::run_fencing())),
        Subcommands::Client => Ok(small_runtime()?.block_on(fencepost_locks::run_client())),
        Subcommands::Storage(setup) => Ok(small_runtime()?
            .block_on(fencepost_storage::run_storage(&setup, fencepost_locks::connect_sequencers))),
    }
}

/// Warnings of Fencepost alone, one line each; `RUST_LOG` asks for more. Libraries would log addresses.
fn log_to_stderr() {
    let wanted = env_logger::Env::default().default_filter_or("fencepost=warn");
    let coloured = |level| match level {
        Level::Error => style(level).for_stderr().red(),
        Level::Warn => style(level).for_stderr().yellow(),
        _ => style(level).for_stderr().dim(),
    };
    env_logger::Builder::from_env(wanted)
        .format(move |line, record| match record.target().starts_with("fencepost") {
            true => writeln!(line, "{} {}", coloured(record.level()), record.args()),
            false => Ok(()),
        })
        .init();
}
