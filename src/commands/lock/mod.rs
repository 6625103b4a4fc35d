//! `fencepost lock`: a lock of one's own, begun and checked.

mod check;
mod new;
mod report;
mod templates;

use anyhow::Result;
use check::CheckLockArgs;
use clap::{Args, Subcommand};
use new::NewArgs;

/// What to do with a lock of one's own.
#[derive(Debug, Args)]
pub struct LockArgs {
    #[command(subcommand)]
    command: LockCommand,
}

#[derive(Debug, Subcommand)]
enum LockCommand {
    /// Make a folder with a lock of your own, which runs at once: lock.toml, a client, and the kit of its
    /// language.
    New(NewArgs),
    /// Check whether a lock's client keeps the client protocol, on real servers, in about 20 s.
    Check(CheckLockArgs),
}

pub fn lock(args: LockArgs) -> Result<i32> {
    match args.command {
        LockCommand::New(args) => new::new(&args),
        LockCommand::Check(args) => check::check(args),
    }
}
