//! Faults that members of etcd are ordered to: a member is replaced (`membership.rs`), or gives the alarm
//! `NOSPACE`, which it gives by itself once its database is full. The whole cluster then refuses what would
//! make it larger. Source: etcd's manual, "Maintenance", on the space quota.

use super::leader::{ask, member_id};
use super::membership;
use crate::service::ServiceOrders;
use fencepost_cluster::{ClusterError, Node};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const ORDERS: ServiceOrders = ServiceOrders {
    names: &["error-replies:nospace", MEMBER],
    begin: |node, order| {
        Box::pin(async move {
            if order == MEMBER {
                return membership::remove(node).await;
            }
            alarm(node, "ACTIVATE").await?;
            let answer = refusal(node).await;
            let is_it = answer.as_ref().is_some_and(|answer| answer.contains("space exceeded"));
            Ok((json!({"answers": answer}), is_it))
        })
    },
    end: |node, order| {
        Box::pin(async move {
            if let Some(others) = order.strip_prefix(MEMBER) {
                return membership::add(node, others).await;
            }
            alarm(node, "DEACTIVATE").await?;
            match refusal(node).await {
                Some(refused) => Err(ClusterError::new(refused)),
                None => Ok(json!({"answers": null})),
            }
        })
    },
};

/// Behind it, at the end, the addresses of the other members.
const MEMBER: &str = "member:";

async fn alarm(node: &Arc<dyn Node>, action: &str) -> Result<(), ClusterError> {
    let order = json!({"action": action, "memberID": member_id(node).await?, "alarm": "NOSPACE"});
    ask(node, "/v3/maintenance/alarm", order).await.map(drop)
}

/// What it answers to a write of a key of its own, which is deleted at once; none: it takes it.
async fn refusal(node: &Arc<dyn Node>) -> Option<String> {
    const KEY: &str = "ZmVuY2Vwb3N0LXByb2Jl"; // fencepost-probe
    let written: Result<String, ClusterError> =
        ask(node, "/v3/kv/put", json!({"key": KEY, "value": Value::from(KEY)})).await;
    let _ = ask(node, "/v3/kv/deleterange", json!({"key": KEY})).await;
    written.err().map(|refused| refused.0)
}
