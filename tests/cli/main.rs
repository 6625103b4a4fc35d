//! The program as its users run it, as far as it starts no server and no node: any machine and any user can
//! run these tests.

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");

mod bad_usage;
mod check;
mod common;
mod existing_servers;
mod formats;
mod launcher;
mod links;
mod long_files;
mod machines;
mod new_locks;
mod other_commands;
mod parts;
mod readers;
mod runs_without_servers;
mod scenarios;
mod unwritten_files;
