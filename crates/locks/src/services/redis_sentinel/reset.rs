//! Sentinels forget what they know of replicas and of each other, and find it again. Source: the Redis
//! documentation, "High availability with Redis Sentinel", on `SENTINEL RESET`.

use super::configuration::{DATA_NODES, GROUP, SENTINELS};
use crate::service::ServiceOrders;
use crate::services::redis::ask::give_order as ask;
use fencepost_cluster::{ClusterError, Node};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A Sentinel asks its primary for the replicas every 10 s (`sentinel_info_period`).
const FOUND_WITHIN: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(super) const ORDERS: ServiceOrders = ServiceOrders {
    names: &["reconfigure:sentinels"],
    begin: |node, _| Box::pin(begin(node)),
    end: |node, _| Box::pin(end(node)),
};

async fn begin(node: &Arc<dyn Node>) -> Result<(Value, bool), ClusterError> {
    let reset = ask(node, &["SENTINEL", "RESET", GROUP]).await?.concat();
    // A data node knows no such command, and has nothing to forget.
    if reset != "1" {
        return Ok((json!({"sentinel": false}), false));
    }
    let known = known(node).await?;
    Ok((json!({"sentinel": true, "replicas": known.0, "sentinels": known.1}), known.0 < DATA_NODES - 1))
}

async fn end(node: &Arc<dyn Node>) -> Result<Value, ClusterError> {
    if ask(node, &["ROLE"]).await?.first().map(String::as_str) != Some("sentinel") {
        return Ok(json!({"sentinel": false}));
    }
    let give_up = Instant::now() + FOUND_WITHIN;
    loop {
        let (replicas, sentinels) = known(node).await?;
        if replicas >= DATA_NODES - 1 && sentinels >= SENTINELS {
            return Ok(json!({"sentinel": true, "replicas": replicas, "sentinels": sentinels}));
        }
        if Instant::now() > give_up {
            let name = node.name();
            let sentence =
                format!("{name} knows {replicas} replicas and {sentinels} Sentinels after it was reset");
            return Err(sentence.into());
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// How many replicas and Sentinels it knows, itself among them.
async fn known(node: &Arc<dyn Node>) -> Result<(usize, usize), ClusterError> {
    let lines = ask(node, &["INFO", "sentinel"]).await?;
    let known = lines.iter().find_map(|line| counts(line));
    known.ok_or_else(|| ClusterError::new(format!("{} does not say what it watches", node.name())))
}

/// From `master0:name=fencepost,status=ok,address=198.18.0.2:6379,slaves=2,sentinels=3`.
fn counts(line: &str) -> Option<(usize, usize)> {
    let fields = line.strip_prefix("master0:")?;
    let count = |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name)?.parse().ok());
    Some((count("slaves=")?, count("sentinels=")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sentinel_knows() {
        let line = "master0:name=fencepost,status=ok,address=198.18.0.2:6379,slaves=2,sentinels=3";
        assert_eq!(counts(line), Some((2, 3)));
        assert_eq!(counts("sentinel_masters:1"), None);
    }
}
