//! Commands that Fencepost itself gives to a Redis server.

use super::access::CLI;
use fencepost_cluster::{ClusterError, Node};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PORT: u16 = 6379;

/// What a server answers to a command that Fencepost gives inside its node, one line each.
pub(crate) async fn ask(node: &Arc<dyn Node>, command: &[&str]) -> Result<Vec<String>, ClusterError> {
    let script = format!("{CLI}cli '' \"$@\"");
    let argv: Vec<&str> = ["sh", "-c", &script, "sh"].iter().chain(command).copied().collect();
    let output = node.exec(&argv, Duration::from_secs(2)).await?;
    Ok(output.stdout.lines().map(|line| line.trim().to_owned()).collect())
}
