//! How a Redis server is made to refuse writes: by orders that operators give it, too.

use super::ask::ask;
use crate::service::ServiceRefusals;
use fencepost_cluster::{ClusterError, Node};
use std::sync::Arc;

/// An error, and the commands that make a server answer with it and that end it.
struct Refused {
    reply: &'static str,
    begin: &'static [&'static str],
    end: &'static [&'static str],
}

/// Fewer replicas than it needs, as when they are gone: more than any server here has.
const NOREPLICAS: Refused = Refused {
    reply: "noreplicas",
    begin: &["CONFIG", "SET", "min-replicas-to-write", "9"],
    end: &["CONFIG", "SET", "min-replicas-to-write", "0"],
};

const OOM: Refused = Refused {
    reply: "oom",
    begin: &["CONFIG", "SET", "maxmemory", "1"],
    end: &["CONFIG", "SET", "maxmemory", "0"],
};

/// A replica, as after an unnoticed failover. Its primary does not exist, so it keeps its data.
const READONLY: Refused =
    Refused { reply: "readonly", begin: &["REPLICAOF", "127.0.0.1", "1"], end: &["REPLICAOF", "NO", "ONE"] };

/// Of servers that know nothing of each other.
pub(crate) const INDEPENDENT: ServiceRefusals = ServiceRefusals {
    replies: &[READONLY.reply, OOM.reply, NOREPLICAS.reply],
    begin: |node, reply| Box::pin(async move { order(node, find(reply)?.begin).await }),
    end: |node, reply| Box::pin(async move { order(node, find(reply)?.end).await }),
    refusal: |node| Box::pin(refusal(node)),
};

/// Only the cluster says whose replica a server is. Servers under Sentinels have none: no Sentinel takes it.
pub(crate) const OF_A_CLUSTER: ServiceRefusals =
    ServiceRefusals { replies: &[OOM.reply, NOREPLICAS.reply], ..INDEPENDENT };

fn find(reply: &str) -> Result<&'static Refused, ClusterError> {
    let found = [&READONLY, &OOM, &NOREPLICAS].into_iter().find(|refused| refused.reply == reply);
    found.ok_or_else(|| ClusterError::new(format!("there is no reply {reply}")))
}

async fn order(node: &Arc<dyn Node>, command: &[&str]) -> Result<(), ClusterError> {
    let answer = ask(node, command).await?.join(" ");
    match answer.starts_with("OK") {
        true => Ok(()),
        false => {
            Err(ClusterError::new(format!("{} answered {} with: {answer}", node.name(), command.join(" "))))
        }
    }
}

async fn refusal(node: &Arc<dyn Node>) -> Result<Option<String>, ClusterError> {
    // A key of its own, which is gone a millisecond later; in a cluster, one of the locks' shard.
    let answer = ask(node, &["SET", "{lock}:fencepost-probe", "1", "PX", "1"]).await?.join(" ");
    Ok((!answer.starts_with("OK")).then_some(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_can_be_ordered_and_no_other() {
        assert!(INDEPENDENT.replies.iter().all(|reply| find(reply).is_ok()));
        assert!(find("loading").is_err());
        assert!(!OF_A_CLUSTER.replies.contains(&"readonly"));
    }
}
