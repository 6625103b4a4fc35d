//! A member of the cluster is removed, and a new one added in its place. Source: etcd's manual, "Runtime
//! reconfiguration". Others are asked from the member's own node: it has ended by then.

use super::leader::{PEER_PORT, ask, http_at};
use fencepost_cluster::{ClusterError, Node};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long a change may take: it is agreed on by a majority, and written down.
const CHANGE_MS: u64 = 3000;

/// With fewer members, none can be missed.
const MEMBERS_MIN: usize = 3;

/// As members list it. One that was added and has not started has no name and no address for clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Member {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    #[serde(rename = "peerURLs")]
    peers: Vec<String>,
    #[serde(rename = "clientURLs")]
    clients: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Members {
    members: Vec<Member>,
}

/// Removes the member of this node by an order to another one, whose list then says so.
pub(super) async fn remove(node: &Arc<dyn Node>) -> Result<(Value, bool), ClusterError> {
    let listed = members(&ask(node, "/v3/cluster/member/list", json!({})).await?)?;
    let Some(own) = listed.iter().find(|member| member.name == node.name()) else {
        return Err(format!("{} is no member of its cluster", node.name()).into());
    };
    if listed.len() < MEMBERS_MIN {
        let count = listed.len();
        return Err(format!("the cluster has {count} members: none can be removed").into());
    }
    let others: Vec<&str> = listed.iter().filter(|member| *member != own).filter_map(address).collect();
    let removed = any(node, &others, "/v3/cluster/member/remove", json!({"ID": own.id})).await?;
    let is_gone = members(&removed)?.iter().all(|member| member.id != own.id);
    Ok((json!({"member": own.id, "others": others}), is_gone))
}

/// Adds a new member at the address of this node, whose process has ended, and empties its data folder. Gives
/// the options with which it is to be started. One that was added before, and has started, keeps its data.
pub(super) async fn add(node: &Arc<dyn Node>, others: &str) -> Result<Value, ClusterError> {
    let others: Vec<String> = serde_json::from_str(others).unwrap_or_default();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let own = format!("http://{}:{}", node.address(), PEER_PORT);
    let mut listed = members(&any(node, &others, "/v3/cluster/member/list", json!({})).await?)?;
    if !listed.iter().any(|member| member.peers.contains(&own)) {
        let added = any(node, &others, "/v3/cluster/member/add", json!({"peerURLs": [own]})).await?;
        listed = members(&added)?;
    }
    if listed.iter().any(|member| member.peers.contains(&own) && !member.name.is_empty()) {
        return Ok(json!({}));
    }
    let emptied = node.exec(&["rm", "-rf", "{data}/etcd"], Duration::from_secs(10)).await?;
    if emptied.code != Some(0) {
        return Err(format!("the data of {} cannot be removed: {}", node.name(), emptied.stderr).into());
    }
    let options =
        json!({"--initial-cluster": cluster(&listed, node.name()), "--initial-cluster-state": "existing"});
    Ok(json!({"start_with": options}))
}

/// `n1=http://198.18.0.2:2380,…`: the new member has no name yet.
fn cluster(members: &[Member], own: &str) -> String {
    let named = members.iter().map(|member| {
        let name = if member.name.is_empty() { own } else { &member.name };
        format!("{name}={}", member.peers.first().map_or("", String::as_str))
    });
    named.collect::<Vec<_>>().join(",")
}

fn members(body: &str) -> Result<Vec<Member>, ClusterError> {
    let listed: Result<Members, _> = serde_json::from_str(body);
    listed.map(|listed| listed.members).map_err(|error| {
        ClusterError::new(format!("a member of etcd lists members in a way that makes no sense: {error}"))
    })
}

/// `host:port`, for a member that takes orders without TLS.
fn address(member: &Member) -> Option<&str> {
    member.clients.iter().find_map(|url| url.strip_prefix("http://"))
}

/// Asks these members in turn, until one agrees.
async fn any(node: &Arc<dyn Node>, others: &[&str], path: &str, body: Value) -> Result<String, ClusterError> {
    let mut refusals = vec![format!("no other member of etcd takes the order {path}")];
    for other in others {
        match http_at(node, (*other).to_owned(), path, body.clone(), CHANGE_MS).await {
            Ok(answer) if answer["status"] == 200 => {
                return Ok(answer["body"].as_str().unwrap_or_default().to_owned());
            }
            Ok(answer) => refusals.push(format!("{other}: {}", answer["body"])),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    Err(refusals.join("; ").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"header":{},"members":[
        {"ID":"7","name":"n1","peerURLs":["http://198.18.0.2:2380"],"clientURLs":["http://198.18.0.2:2379"]},
        {"ID":"8","peerURLs":["http://198.18.0.3:2380"]},
        {"ID":"9","name":"n3","peerURLs":["http://198.18.0.4:2380"],"clientURLs":["https://198.18.0.4:2379"]}]}"#;

    #[test]
    fn a_new_member_knows_all_others_and_has_its_own_name() {
        let members = members(LIST).unwrap();
        assert_eq!(
            cluster(&members, "n2"),
            "n1=http://198.18.0.2:2380,n2=http://198.18.0.3:2380,n3=http://198.18.0.4:2380"
        );
    }

    #[test]
    fn orders_go_to_members_that_have_started_and_speak_without_tls() {
        let members = members(LIST).unwrap();
        let addresses: Vec<Option<&str>> = members.iter().map(address).collect();
        assert_eq!(addresses, [Some("198.18.0.2:2379"), None, None]);
        assert!(super::members("{}").is_err());
    }
}
