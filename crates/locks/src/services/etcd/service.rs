//! The members of an etcd cluster: how they are started, and how they say that they serve.

use super::existing::ExistingEtcd;
use super::leader::{self, CLIENT_PORT, LOOPBACK_PORT, PEER_PORT};
use crate::described::{DESCRIBED, ONE};
use crate::error::{OptionError, nodes_are, refuse};
use crate::options::Options;
use crate::run_access::{FOLDER, RunAccess, USER};
use crate::service::{LockService, ServerKind, ServiceLeadership, TLS_AND_AUTH};
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use futures_util::FutureExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long an order may take: hashing a password is made to take long.
const ORDER_MS: u64 = 20_000;
const HEARTBEAT_MS: u64 = 100;
const ELECTION_MS: u64 = 1000;
/// No lease is shorter than 1.5 election time-outs, rounded up to seconds (`minTTL` in etcd's `server.go`).
const TTL_MIN: Duration = Duration::from_secs((ELECTION_MS * 3 / 2).div_ceil(1000));

pub(super) static ETCD: LockService = LockService {
    name: "etcd",
    about: "an etcd of three servers",
    servers: &["etcd"],
    kinds: &[ServerKind {
        count: 3,
        server: "etcd",
        processes: &["etcd"],
        port: CLIENT_PORT,
        version: &["etcd", "--version"],
        ..ONE
    }],
    options: TLS_AND_AUTH,
    check_nodes: |_, nodes| {
        nodes_are!(
            nodes % 2 == 1 && nodes <= 9,
            "etcd needs an odd number of members, at most 9, not {nodes}; use --nodes 3 or --nodes 5"
        )
    },
    check_ttl,
    start,
    secure: |nodes, access| Box::pin(secure(nodes, access)),
    trouble: |_, node, _| Box::pin(trouble(node)),
    version,
    leadership: Some(ServiceLeadership {
        leader: |_, nodes| Box::pin(leader::leader(nodes).map(Ok)),
        transfer: |_, nodes, from| Box::pin(leader::transfer(nodes, from)),
    }),
    existing: Some(&ExistingEtcd),
    orders: Some(super::orders::ORDERS),
    ..DESCRIBED
};

fn check_ttl(ttl: Duration) -> Result<(), OptionError> {
    if ttl.subsec_nanos() == 0 && ttl >= TTL_MIN {
        return Ok(());
    }
    refuse!(
        "ttl",
        "etcd's leases last whole seconds, and these servers grant none under {} s; use --ttl {}s",
        TTL_MIN.as_secs(),
        ttl.as_secs_f64().ceil().max(TTL_MIN.as_secs_f64())
    )
}

fn start(_: &LockService, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service {
    let node = &nodes[index];
    let peer = |node: &Arc<dyn Node>| format!("http://{}:{PEER_PORT}", node.address());
    let scheme = if options.tls { "https" } else { "http" };
    let client = format!("{scheme}://{}:{CLIENT_PORT}", node.address());
    let listen = match options.tls {
        true => format!("{client},http://127.0.0.1:{LOOPBACK_PORT}"),
        false => client.clone(),
    };
    let cluster: Vec<String> = nodes.iter().map(|node| format!("{}={}", node.name(), peer(node))).collect();
    let fixed = [
        ("--name", node.name().to_owned()),
        ("--data-dir", "{data}/etcd".to_owned()),
        // Ignored by a member that is started again and finds its data.
        ("--initial-cluster", cluster.join(",")),
        ("--initial-cluster-state", "new".to_owned()),
        ("--initial-cluster-token", "fencepost".to_owned()),
        ("--listen-peer-urls", peer(node)),
        ("--initial-advertise-peer-urls", peer(node)),
        ("--listen-client-urls", listen),
        ("--advertise-client-urls", client),
        ("--heartbeat-interval", HEARTBEAT_MS.to_string()),
        ("--election-timeout", ELECTION_MS.to_string()),
        ("--logger", "zap".to_owned()),
    ];
    // It would refuse to replace a member in the first 5 s. Only the fault `member` does that, one at a time.
    let mut argv = vec!["etcd".to_owned(), "--strict-reconfig-check=false".to_owned()];
    argv.extend(fixed.into_iter().flat_map(|(option, value)| [option.to_owned(), value]));
    if options.tls {
        let files =
            [("--cert-file", "server.pem"), ("--key-file", "server.key"), ("--trusted-ca-file", "ca.pem")];
        argv.extend(files.iter().map(|(option, file)| format!("{option}={FOLDER}/{file}")));
        argv.push("--client-cert-auth".to_owned());
    }
    if options.auth {
        // Each connection logs in: the usual, slow hash would take all of a busy machine's time.
        argv.push("--bcrypt-cost=4".to_owned());
    }
    // etcd 3.4 refuses to start on this architecture without it; elsewhere it is ignored.
    let env = vec![("ETCD_UNSUPPORTED_ARCH".to_owned(), "arm64".to_owned())];
    Service { name: "etcd".to_owned(), argv, env, refuses_root: false }
}

/// Asks the member's `/health`, which is a linearizable read: it needs a leader and a majority.
async fn trouble(node: &Arc<dyn Node>) -> Result<Option<String>, ClusterError> {
    Ok(match leader::http(node, "/health", Value::Null).await {
        Ok(answer) if answer["status"] == 200 => None,
        Ok(answer) => Some(answer.to_string()),
        // Not listening yet, or gone for good: the deadline tells.
        Err(error) => Some(error.to_string()),
    })
}

/// Makes the user and `root`, and turns passwords on, by the first member for all.
async fn secure(nodes: &[Arc<dyn Node>], access: &RunAccess) -> Result<(), ClusterError> {
    let (Some(password), Some(node)) = (access.password(), nodes.first()) else { return Ok(()) };
    let orders = [
        ("user/add", json!({"name": "root", "password": password})),
        ("user/grant", json!({"user": "root", "role": "root"})),
        ("user/add", json!({"name": USER, "password": password})),
        ("role/add", json!({"name": "locks"})),
        // From the first key to the last: base64 of one zero byte stands for both.
        (
            "role/grant",
            json!({"name": "locks", "perm": {"permType": "READWRITE", "key": "AA==", "range_end": "AA=="}}),
        ),
        ("user/grant", json!({"user": USER, "role": "locks"})),
        ("enable", json!({})),
    ];
    for (order, body) in orders {
        let address = if access.is_tls() { leader::loopback() } else { leader::client_address(node) };
        let path = format!("/v3/auth/{order}");
        let answer = leader::http_at(node, address, &path, body, ORDER_MS).await?;
        if answer["status"] != 200 {
            return Err(
                format!("etcd on {} refused /v3/auth/{order}: {}", node.name(), answer["body"]).into()
            );
        }
    }
    Ok(())
}

/// From `etcd Version: 3.4.23`.
fn version(line: &str) -> Option<String> {
    line.strip_prefix("etcd Version: ").map(|version| format!("etcd {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_is_whole_seconds_that_the_server_grants() {
        let check = |millis| check_ttl(Duration::from_millis(millis));
        assert_eq!(check(2000), Ok(()));
        assert_eq!(check(10_000), Ok(()));
        assert!(check(2500).is_err_and(|why| why.sentence.ends_with("use --ttl 3s")));
        assert!(check(1000).is_err_and(|why| why.sentence.ends_with("use --ttl 2s")));
    }

    #[test]
    fn version_is_read_from_the_servers_own_words() {
        assert_eq!(version("etcd Version: 3.4.23").as_deref(), Some("etcd 3.4.23"));
        assert_eq!(version("Git SHA: Not provided"), None);
    }
}
