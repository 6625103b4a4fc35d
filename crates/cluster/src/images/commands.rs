//! Running other programs while something is made. They end when the making is given up.

use crate::ClusterError;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

/// Runs a command to its end and gives what it printed. `what` completes "cannot …".
pub(super) async fn run(command: &mut Command, what: &str) -> Result<String, ClusterError> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| ClusterError::new(format!("cannot {what}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Programs say the essential last, and apt marks it.
    let essential = said.lines().rfind(|line| line.starts_with("E:")).or(said.lines().last());
    Err(ClusterError::new(format!(
        "cannot {what}: {}",
        essential.unwrap_or("it failed without a word").trim()
    )))
}

pub(crate) async fn remove_folder(path: &Path) -> Result<(), ClusterError> {
    let removed = tokio::fs::remove_dir_all(path).await;
    removed.map_err(|error| ClusterError::new(format!("cannot remove {}: {error}", path.display())))
}

/// How much room a folder takes up.
pub(crate) async fn folder_size(path: &Path) -> u64 {
    let output = run(Command::new("du").args(["-s", "-B1"]).arg(path), "measure a folder").await;
    output.ok().and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
