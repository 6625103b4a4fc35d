//! What servers of NATS say on their port for monitoring, without TLS and password, inside their nodes.

use super::client::BUCKET;
use crate::http::HttpTool;
use fencepost_cluster::{ClusterError, Node};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const ADDRESS: &str = "127.0.0.1:8222";

/// A server that is stopped takes connections and never answers.
const PATIENCE_MS: u64 = 500;

#[derive(Debug, Default, Deserialize)]
struct Jetstream {
    /// Of a server that has no cluster: none.
    #[serde(default)]
    meta_cluster: Option<MetaGroup>,
    #[serde(default)]
    account_details: Vec<Account>,
}

#[derive(Debug, Deserialize)]
struct MetaGroup {
    #[serde(default)]
    leader: String,
    /// The others, in the eyes of the leader; other servers list none.
    #[serde(default)]
    replicas: Vec<Peer>,
}

#[derive(Debug, Deserialize)]
struct Peer {
    #[serde(default)]
    name: String,
    #[serde(default)]
    offline: bool,
}

#[derive(Debug, Deserialize)]
struct Account {
    #[serde(default)]
    stream_detail: Vec<BucketStream>,
}

#[derive(Debug, Deserialize)]
struct BucketStream {
    name: String,
    #[serde(default)]
    cluster: Option<NatsCluster>,
}

#[derive(Debug, Deserialize)]
struct NatsCluster {
    #[serde(default)]
    leader: String,
}

impl Jetstream {
    /// The name of the leader of the locks' bucket, in this server's eyes.
    fn leader(&self) -> Option<&str> {
        let streams = self.account_details.iter().flat_map(|account| &account.stream_detail);
        let mut buckets = streams.filter(|stream| stream.name.starts_with(&format!("KV_{BUCKET}")));
        let leader = buckets.find_map(|bucket| bucket.cluster.as_ref())?.leader.as_str();
        (!leader.is_empty()).then_some(leader)
    }
}

/// Why the servers cannot hold a bucket yet, of which all are to have a replica.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MissingServers {
    pub(super) why: String,
    pub(super) away: Vec<String>,
}

pub(super) async fn missing(nodes: &[Arc<dyn Node>]) -> Option<MissingServers> {
    if nodes.len() == 1 {
        return None;
    }
    for node in nodes {
        let page = match get(node, "/jsz").await {
            Ok(page) => page,
            Err(error) => return Some(MissingServers { why: error.to_string(), away: Vec::new() }),
        };
        let meta = serde_json::from_str(&page).ok().and_then(|view: Jetstream| view.meta_cluster);
        if let Some(meta) = meta.filter(|meta| meta.leader == node.name()) {
            let names: Vec<&str> = nodes.iter().map(|node| node.name()).collect();
            return not_heard_from(&meta, &names);
        }
    }
    Some(MissingServers { why: "no server leads the others".to_owned(), away: Vec::new() })
}

/// The servers, of these, that the leader has not heard from.
fn not_heard_from(meta: &MetaGroup, names: &[&str]) -> Option<MissingServers> {
    let is_there = |name: &str| {
        name == meta.leader || meta.replicas.iter().any(|peer| peer.name == name && !peer.offline)
    };
    let away: Vec<String> =
        names.iter().filter(|name| !is_there(name)).map(|name| (*name).to_owned()).collect();
    let why = format!("{}, which leads, has not heard from {}", meta.leader, away.join(", "));
    (!away.is_empty()).then_some(MissingServers { why, away })
}

/// Why this server does not serve; nothing, where it does: it knows who leads, or is alone.
pub(super) async fn why_not_serving(node: &Arc<dyn Node>, is_alone: bool) -> Option<String> {
    let page = match get(node, "/jsz").await {
        Ok(page) => page,
        Err(error) => return Some(error.to_string()),
    };
    let view: Option<Jetstream> = serde_json::from_str(&page).ok();
    match view.map(|view| view.meta_cluster.map(|meta| meta.leader)) {
        None => Some("its JetStream says nothing of itself".to_owned()),
        Some(None) if is_alone => None,
        Some(Some(leader)) if !leader.is_empty() => None,
        Some(_) => Some("it knows of no leader".to_owned()),
    }
}

/// Gets a page. Errors: no answer, or no success.
pub(super) async fn get(node: &Arc<dyn Node>, path: &str) -> Result<String, ClusterError> {
    let args = json!({"address": ADDRESS, "path": path, "body": Value::Null, "timeout_ms": PATIENCE_MS});
    let answer = node.tool(HttpTool::NAME, args).await?;
    let body = answer["body"].as_str().unwrap_or_default();
    if answer["status"] != 200 {
        return Err(format!("NATS on {} answered {path} with: {body}", node.name()).into());
    }
    Ok(body.to_owned())
}

/// The place of the leader of the locks' bucket. Before the first lock, the first server counts.
pub(super) async fn leader(nodes: &[Arc<dyn Node>]) -> Option<usize> {
    let pages = join_all(nodes.iter().map(|node| get(node, "/jsz?accounts=1&streams=1"))).await;
    let views: Vec<Option<Jetstream>> =
        pages.into_iter().map(|page| serde_json::from_str(&page.ok()?).ok()).collect();
    let names: Vec<&str> = nodes.iter().map(|node| node.name()).collect();
    most_agree(&names, &views)
}

/// Of the servers that claim to lead, the one that most others name: one that was cut off may still claim it.
fn most_agree(names: &[&str], views: &[Option<Jetstream>]) -> Option<usize> {
    let said: Vec<Option<&str>> =
        views.iter().map(|view| view.as_ref().and_then(Jetstream::leader)).collect();
    let own = (0..names.len()).filter(|place| said[*place] == Some(names[*place]));
    own.max_by_key(|place| said.iter().filter(|leader| **leader == Some(names[*place])).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_the_leader_takes_for_gone_is_named() {
        let meta = |page: &str| serde_json::from_str::<MetaGroup>(page).unwrap();
        let names = ["n1", "n2", "n3"];
        let whole = meta(r#"{"leader":"n2","replicas":[{"name":"n1","current":true},{"name":"n3"}]}"#);
        assert_eq!(not_heard_from(&whole, &names), None);
        let gone = meta(r#"{"leader":"n2","replicas":[{"name":"n1","offline":true}]}"#);
        let missing = not_heard_from(&gone, &names).unwrap();
        assert_eq!(missing.away, ["n1", "n3"]);
        assert_eq!(missing.why, "n2, which leads, has not heard from n1, n3");
    }

    #[test]
    fn the_leader_is_the_server_that_says_so_and_that_most_name() {
        let says = |leader: &str| {
            let page = format!(
                r#"{{"account_details":[{{"stream_detail":[{{"name":"other"}},{{"name":"KV_locks-2000","cluster":{{"leader":"{leader}"}}}}]}}]}}"#
            );
            Some(serde_json::from_str::<Jetstream>(&page).unwrap())
        };
        let names = ["n1", "n2", "n3"];
        assert_eq!(most_agree(&names, &[says("n2"), says("n2"), says("n2")]), Some(1));
        // The first was cut off and does not know yet that the others have chosen again.
        assert_eq!(most_agree(&names, &[says("n1"), says("n3"), says("n3")]), Some(2));
        assert_eq!(most_agree(&names, &[says("n2"), None, says("n2")]), None, "it does not say so itself");
        assert_eq!(most_agree(&names, &[says(""), says(""), Some(Jetstream::default())]), None);
    }
}
