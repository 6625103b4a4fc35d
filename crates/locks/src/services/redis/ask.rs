//! Commands that Fencepost itself gives to a Redis server.

use super::access::CLI;
use fencepost_cluster::{ClusterError, Node};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PORT: u16 = 6379;

/// How long a question may take: one to a server that is stopped must not hold others up.
const QUESTION: Duration = Duration::from_secs(2);
/// How long an order may take. A busy machine needs seconds to start `redis-cli`.
const ORDER: Duration = Duration::from_secs(6);

/// What a server answers to a question that Fencepost asks inside its node, one line each.
pub(crate) async fn ask(node: &Arc<dyn Node>, command: &[&str]) -> Result<Vec<String>, ClusterError> {
    within(node, command, QUESTION).await
}

/// As [`ask`], for a command of a fault.
pub(crate) async fn give_order(node: &Arc<dyn Node>, command: &[&str]) -> Result<Vec<String>, ClusterError> {
    within(node, command, ORDER).await
}

/// Gives this order to servers in turn, until one takes it. Errors: the answers of those that do not.
pub(crate) async fn fail_over(
    nodes: impl IntoIterator<Item = &Arc<dyn Node>>,
    called: &str,
    order: &[&str],
) -> Result<(), ClusterError> {
    let mut refusals = Vec::new();
    for node in nodes {
        match ask(node, order).await {
            Ok(answer) if answer.first().map(String::as_str) == Some("OK") => return Ok(()),
            Ok(answer) => refusals.push(format!("{}: {}", node.name(), answer.join(" "))),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    Err(format!("no {called} takes the order to fail over ({})", refusals.join("; ")).into())
}

async fn within(
    node: &Arc<dyn Node>,
    command: &[&str],
    patience: Duration,
) -> Result<Vec<String>, ClusterError> {
    let script = format!("{CLI}cli '' \"$@\"");
    let argv: Vec<&str> = ["sh", "-c", &script, "sh"].iter().chain(command).copied().collect();
    let output = node.exec(&argv, patience).await?;
    Ok(output.stdout.lines().map(|line| line.trim().to_owned()).collect())
}
