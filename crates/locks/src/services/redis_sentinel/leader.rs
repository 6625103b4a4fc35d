//! Which server is the primary, and how to order the Sentinels to choose another.

use super::configuration::{DATA_NODES, GROUP};
use crate::services::redis::ask::{ask, fail_over};
use fencepost_cluster::{ClusterError, Node};
use futures_util::future::join_all;
use std::sync::Arc;

/// The primary's place by the newest Sentinel's configuration, if it agrees; none while it is silent.
pub(super) async fn leader(nodes: &[Arc<dyn Node>]) -> Option<usize> {
    let answers =
        join_all(nodes[DATA_NODES..].iter().map(|node| ask(node, &["SENTINEL", "MASTER", GROUP]))).await;
    let address = newest(answers.into_iter().flatten())?;
    let place = nodes[..DATA_NODES].iter().position(|node| node.address().to_string() == address)?;
    let role = ask(&nodes[place], &["ROLE"]).await.ok()?;
    (role.first().map(String::as_str) == Some("master")).then_some(place)
}

/// The address with the highest configuration epoch; a Sentinel answers names and values, line by line.
fn newest(answers: impl Iterator<Item = Vec<String>>) -> Option<String> {
    let named = answers.filter_map(|lines| {
        let value = |name: &str| Some(lines.chunks(2).find(|pair| pair[0] == name)?.get(1)?.clone());
        Some((value("config-epoch")?.parse::<u64>().ok()?, value("ip")?))
    });
    named.max().map(|(_, address)| address)
}

/// Orders a Sentinel to promote a replica, as if the primary had failed.
pub(super) async fn transfer(nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
    fail_over(&nodes[DATA_NODES..], "Sentinel", &["SENTINEL", "FAILOVER", GROUP]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_configuration_counts() {
        let answer = |epoch: &str, ip: &str| {
            ["name", GROUP, "ip", ip, "port", "6379", "config-epoch", epoch].map(str::to_owned).to_vec()
        };
        let address = |answers: Vec<Vec<String>>| newest(answers.into_iter());
        assert_eq!(
            address(vec![answer("9", "198.18.0.2"), answer("10", "198.18.0.3"), Vec::new()]).unwrap(),
            "198.18.0.3"
        );
        assert_eq!(address(vec![vec!["(error)".to_owned()]]), None);
    }
}
