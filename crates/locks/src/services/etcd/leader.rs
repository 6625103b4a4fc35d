//! Which member leads an etcd cluster, and how another is chosen, over its JSON gateway (`rpc.proto`).

use crate::http::HttpTool;
use fencepost_cluster::{ClusterError, Node};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const CLIENT_PORT: u16 = 2379;

pub(super) const PEER_PORT: u16 = 2380;

/// The port for Fencepost's own questions if the client port speaks TLS: plain, and in the own node only.
pub(super) const LOOPBACK_PORT: u16 = 2381;

/// A member that is stopped or cut off takes connections and never answers.
const PATIENCE_MS: u64 = 500;

/// What a member says of itself and of the cluster. The gateway writes numbers of 64 bits as strings.
#[derive(Debug, Deserialize)]
struct MemberStatus {
    header: Header,
    #[serde(default)]
    leader: String,
}

#[derive(Debug, Deserialize)]
struct Header {
    member_id: String,
    #[serde(default)]
    raft_term: String,
}

impl MemberStatus {
    fn term(&self) -> u64 {
        self.header.raft_term.parse().unwrap_or(0)
    }

    fn leads(&self) -> bool {
        self.leader == self.header.member_id
    }
}

/// The place of the leader. One that was cut off may still claim it: the newest term counts.
pub(super) async fn leader(nodes: &[Arc<dyn Node>]) -> Option<usize> {
    let statuses = join_all(nodes.iter().map(status)).await;
    newest(&statuses)
}

fn newest(statuses: &[Result<MemberStatus, ClusterError>]) -> Option<usize> {
    let leaders =
        statuses.iter().enumerate().filter_map(|(place, status)| Some((place, status.as_ref().ok()?)));
    let newest = leaders.filter(|(_, status)| status.leads()).max_by_key(|(_, status)| status.term());
    newest.map(|(place, _)| place)
}

/// Orders the leader to make another member that answers the leader.
pub(super) async fn transfer(nodes: &[Arc<dyn Node>], from: usize) -> Result<(), ClusterError> {
    let others = nodes.iter().enumerate().filter(|(place, _)| *place != from);
    let statuses = join_all(others.map(|(_, node)| status(node))).await;
    let next = statuses
        .into_iter()
        .flatten()
        .max_by_key(MemberStatus::term)
        .ok_or_else(|| format!("no member answers that could lead in place of {}", nodes[from].name()))?;
    let order = json!({"targetID": next.header.member_id});
    ask(&nodes[from], "/v3/maintenance/transfer-leadership", order).await.map(drop)
}

async fn status(node: &Arc<dyn Node>) -> Result<MemberStatus, ClusterError> {
    let body = ask(node, "/v3/maintenance/status", json!({})).await?;
    serde_json::from_str(&body).map_err(|error| {
        ClusterError::new(format!("etcd on {} reported a state that makes no sense: {error}", node.name()))
    })
}

pub(super) async fn member_id(node: &Arc<dyn Node>) -> Result<String, ClusterError> {
    Ok(status(node).await?.header.member_id)
}

/// One request to a member, from inside its node; with a body of null it gets the page.
pub(super) async fn http(node: &Arc<dyn Node>, path: &str, body: Value) -> Result<Value, ClusterError> {
    match http_at(node, loopback(), path, body.clone(), PATIENCE_MS).await {
        Ok(answer) => Ok(answer),
        // It has no such port, or does not answer at all.
        Err(_) => http_at(node, client_address(node), path, body, PATIENCE_MS).await,
    }
}

pub(super) async fn http_at(
    node: &Arc<dyn Node>,
    address: String,
    path: &str,
    body: Value,
    patience_ms: u64,
) -> Result<Value, ClusterError> {
    let args = json!({"address": address, "path": path, "body": body, "timeout_ms": patience_ms});
    node.tool(HttpTool::NAME, args).await
}

pub(super) fn loopback() -> String {
    format!("127.0.0.1:{LOOPBACK_PORT}")
}

pub(super) fn client_address(node: &Arc<dyn Node>) -> String {
    format!("{}:{CLIENT_PORT}", node.address())
}

pub(super) async fn ask(node: &Arc<dyn Node>, path: &str, body: Value) -> Result<String, ClusterError> {
    let answer = http(node, path, body).await?;
    let said = answer["body"].as_str().unwrap_or_default();
    if answer["status"] != 200 {
        return Err(format!("etcd on {} refused {path}: {said}", node.name()).into());
    }
    Ok(said.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(member: &str, leader: &str, term: &str) -> Result<MemberStatus, ClusterError> {
        let status = json!({"header": {"member_id": member, "raft_term": term}, "leader": leader});
        Ok(serde_json::from_value(status).expect("a status"))
    }

    #[test]
    fn the_leader_of_the_newest_term_leads() {
        let silent = || Err(ClusterError::new("no answer".to_owned()));
        assert_eq!(newest(&[status_of("1", "2", "3"), status_of("2", "2", "3"), silent()]), Some(1));
        // The first was cut off and does not know yet that the others have chosen again.
        assert_eq!(
            newest(&[status_of("1", "1", "9"), status_of("2", "2", "10"), status_of("3", "2", "10")]),
            Some(1)
        );
        assert_eq!(newest(&[status_of("1", "0", "4"), status_of("2", "0", "4")]), None);
        assert_eq!(newest(&[silent()]), None);
    }

    #[test]
    fn fields_that_the_gateway_leaves_out_are_none() {
        let status: MemberStatus = serde_json::from_str(r#"{"header":{"member_id":"7"}}"#).expect("a status");
        assert!(!status.leads());
    }
}
