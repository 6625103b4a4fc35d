//! What the fuzzer, and the test of its readers, reach of the program's own.

use crate::cli::Cli;
use clap::CommandFactory;
use std::path::Path;
use std::sync::LazyLock;

/// Reads a `fencepost.toml`.
pub fn config(text: &str) {
    static PROGRAM: LazyLock<clap::Command> = LazyLock::new(Cli::command);
    crate::config::fuzz(text, &PROGRAM);
}

/// Gives what `serve` answers to these bytes, sent over one connection.
pub async fn serve(results: &Path, sent: &[u8]) -> Vec<u8> {
    crate::commands::serve::fuzz(results, sent).await
}
