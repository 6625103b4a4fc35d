//! Runs the program as a user would.

#[path = "../all/common/server.rs"]
pub mod server;

use std::process::{Command, Stdio};

/// The program with these arguments.
pub fn fencepost(args: &[&str]) -> Command {
    let mut command = Command::new(crate::PROGRAM);
    command.args(args).stdin(Stdio::null()).env_remove("RUST_LOG").env_remove("CARGO");
    command
}
