//! How a Redis server is made to refuse writes: by orders that operators give it, too.

use super::ask::ask;
use crate::service::ServiceRefusals;
use async_trait::async_trait;
use fencepost_cluster::{ClusterError, Node};
use std::sync::Arc;

/// An error, and the commands that make a server answer with it and that end it.
struct Refused {
    reply: &'static str,
    begin: &'static [&'static str],
    end: &'static [&'static str],
}

/// Fewer replicas than it needs, as when they are gone.
const NOREPLICAS: Refused = Refused {
    reply: "noreplicas",
    begin: &["CONFIG", "SET", "min-replicas-to-write", "1"],
    end: &["CONFIG", "SET", "min-replicas-to-write", "0"],
};

/// No memory left.
const OOM: Refused = Refused {
    reply: "oom",
    begin: &["CONFIG", "SET", "maxmemory", "1"],
    end: &["CONFIG", "SET", "maxmemory", "0"],
};

/// A replica, as after a failover that the client has not heard of. Of a primary that does not exist, so that
/// it keeps its data.
const READONLY: Refused =
    Refused { reply: "readonly", begin: &["REPLICAOF", "127.0.0.1", "1"], end: &["REPLICAOF", "NO", "ONE"] };

/// All that are known.
const KNOWN: [Refused; 3] = [READONLY, OOM, NOREPLICAS];

/// The refusals of servers that know nothing of each other. Those that Sentinel watches are another matter:
/// it says which of them is a replica.
pub(crate) struct RedisRefusals;

fn find(reply: &str) -> Result<&'static Refused, ClusterError> {
    let found = KNOWN.iter().find(|refused| refused.reply == reply);
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

#[async_trait]
impl ServiceRefusals for RedisRefusals {
    fn replies(&self) -> &'static [&'static str] {
        &[READONLY.reply, OOM.reply, NOREPLICAS.reply]
    }

    async fn begin(&self, node: &Arc<dyn Node>, reply: &str) -> Result<(), ClusterError> {
        order(node, find(reply)?.begin).await
    }

    async fn end(&self, node: &Arc<dyn Node>, reply: &str) -> Result<(), ClusterError> {
        order(node, find(reply)?.end).await
    }

    async fn refusal(&self, node: &Arc<dyn Node>) -> Result<Option<String>, ClusterError> {
        // A key of its own, which is gone a millisecond later.
        let answer = ask(node, &["SET", "fencepost-probe", "1", "PX", "1"]).await?.join(" ");
        Ok((!answer.starts_with("OK")).then_some(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_can_be_ordered_and_no_other() {
        assert!(RedisRefusals.replies().iter().all(|reply| find(reply).is_ok()));
        assert!(find("loading").is_err());
    }
}
