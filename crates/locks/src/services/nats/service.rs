//! The servers of NATS: how they are started, and how they say that they serve.

use super::monitor;
use crate::described::{DESCRIBED, ONE};
use crate::error::{OptionError, refuse};
use crate::options::{NatsSync, Options};
use crate::readiness::START_TIME;
use crate::run_access::{AccessFile, FOLDER, RunAccess, USER};
use crate::service::{LockService, ServerKind, ServiceLeadership};
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use futures_util::FutureExt;
use nix::sys::signal::Signal;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const PORT: u16 = 4222;
const ROUTE_PORT: u16 = 6222;
const SERVICE: &str = "nats";
const SETTINGS: &str = "{data}/nats.conf";
/// Servers have found each other by then; one that the leader takes for gone after that stays so.
const TAKEN_FOR_GONE: Duration = Duration::from_secs(8);
const TURN: Duration = Duration::from_millis(100);
/// JetStream takes no shorter TTL of a bucket (`max_age` of its stream).
const TTL_MIN: Duration = Duration::from_millis(100);

/// Starts a server by a file of settings and what it asks of clients. Servers that connect to each other in
/// the same moment close one connection of each pair, and may take each other for gone for ever: at its first
/// start each waits a little longer. Arguments: the file, its content, how long to wait in seconds.
const START: &str = r#"[ -e "$1" ] || sleep "$3"; { printf '%s' "$2"; [ ! -e /run/access/nats.conf ] || cat /run/access/nats.conf; } > "$1" \
    && exec nats-server --config "$1""#;

pub(super) static NATS: LockService = LockService {
    name: "nats",
    about: "a NATS of three servers, with JetStream",
    servers: &["nats"],
    kinds: &[ServerKind {
        count: 3,
        server: "NATS",
        processes: &[SERVICE],
        port: PORT,
        version: &["nats-server", "--version"],
        ..ONE
    }],
    setup_time: Duration::from_secs(4),
    options: &["nats-sync", "tls", "auth"],
    check_nodes,
    check_ttl,
    start,
    access_files,
    // Not by `/healthz`: asked for that again and again, a server of 2.10 with a bucket that is behind sets
    // it back each time, and never mends it; and one without news from the leader may call itself behind.
    trouble: |_, node, all| Box::pin(monitor::why_not_serving(node, all.len() == 1).map(Ok)),
    gather: |_, nodes| Box::pin(find_each_other(nodes)),
    version,
    leadership: Some(ServiceLeadership {
        leader: |_, nodes| Box::pin(monitor::leader(nodes).map(Ok)),
        transfer: |_, _, _| {
            Box::pin(async {
                Err(ClusterError::new(
                    "a server of NATS takes the order to let another lead from its clients only, and not from Fencepost",
                ))
            })
        },
    }),
    ..DESCRIBED
};

fn check_nodes(_: &LockService, nodes: usize) -> Result<(), OptionError> {
    match nodes {
        1 | 3 | 5 => Ok(()),
        _ => refuse!(
            "nodes",
            "a bucket of NATS has 1, 3 or 5 replicas, not {nodes}; use --nodes 3 or --nodes 5"
        ),
    }
}

fn check_ttl(ttl: Duration) -> Result<(), OptionError> {
    if ttl >= TTL_MIN {
        return Ok(());
    }
    refuse!("ttl", "the entries of a bucket of NATS live at least 100 ms; use --ttl 100ms")
}

fn start(_: &LockService, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service {
    let addresses: Vec<String> = nodes.iter().map(|node| node.address().to_string()).collect();
    let settings = settings(nodes[index].name(), &addresses, options);
    let turn_s = format!("{:.1}", index as f64 * TURN.as_secs_f64());
    let argv = ["sh", "-c", START, "sh", SETTINGS, &settings, &turn_s].map(str::to_owned).to_vec();
    Service { name: SERVICE.to_owned(), argv, env: Vec::new(), refuses_root: false }
}

fn access_files(access: &RunAccess) -> Vec<AccessFile> {
    let mut settings = String::new();
    if access.is_tls() {
        let _ = writeln!(
            settings,
            "tls {{ cert_file: \"{FOLDER}/server.pem\", key_file: \"{FOLDER}/server.key\", \
             ca_file: \"{FOLDER}/ca.pem\", verify: true }}"
        );
    }
    if let Some(password) = access.password() {
        let _ = writeln!(settings, "authorization {{ user: \"{USER}\", password: \"{password}\" }}");
    }
    vec![AccessFile::new("nats.conf", settings)]
}

async fn find_each_other(nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
    let (begun, mut started) = (Instant::now(), Instant::now());
    while let Some(missing) = monitor::missing(nodes).await {
        if begun.elapsed() > START_TIME {
            return Err(format!(
                "the servers of NATS did not find each other within {} s: {}",
                START_TIME.as_secs(),
                missing.why
            )
            .into());
        }
        if started.elapsed() > TAKEN_FOR_GONE {
            for node in nodes.iter().filter(|node| missing.away.iter().any(|name| name == node.name())) {
                start_again(node).await?;
            }
            started = Instant::now();
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Starts a server anew that the others take for gone, before the run begins.
async fn start_again(node: &Arc<dyn Node>) -> Result<(), ClusterError> {
    if let Some(pid) = node.service_pid(SERVICE) {
        node.signal_tree(pid, Signal::SIGKILL as i32).await?;
        node.await_exit(pid, Duration::from_secs(5)).await?;
    }
    // Its settings are there from its first start.
    let argv = ["nats-server", "--config", SETTINGS].map(str::to_owned).to_vec();
    let again = Service { name: SERVICE.to_owned(), argv, env: Vec::new(), refuses_root: false };
    node.start(&again).await.map(drop)
}

fn settings(name: &str, addresses: &[String], options: &Options) -> String {
    let routes: Vec<String> =
        addresses.iter().map(|address| format!("\"nats-route://{address}:{ROUTE_PORT}\"")).collect();
    let sync = match options.nats_sync {
        NatsSync::Interval => "",
        NatsSync::Always => ", sync_interval: always",
    };
    let mut settings = format!(
        "server_name: {name}\nlisten: \"0.0.0.0:{PORT}\"\nhttp: \"{}\"\n\
         jetstream {{ store_dir: \"{{data}}/jetstream\"{sync} }}\n",
        monitor::ADDRESS,
    );
    // One server alone has no cluster, and needs none.
    if addresses.len() > 1 {
        let _ = writeln!(
            settings,
            "cluster {{ name: fencepost, listen: \"0.0.0.0:{ROUTE_PORT}\", pool_size: -1, routes: [{}] }}",
            routes.join(", ")
        );
    }
    settings
}

/// From `nats-server: v2.10.27`.
fn version(line: &str) -> Option<String> {
    line.strip_prefix("nats-server: v").map(|version| format!("nats-server {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_servers_own_words() {
        assert_eq!(version("nats-server: v2.10.27").as_deref(), Some("nats-server 2.10.27"));
        assert_eq!(version("nats-server: unknown"), None);
    }

    #[test]
    fn a_server_knows_all_others_and_syncs_as_it_is_asked() {
        let addresses = ["198.18.0.2", "198.18.0.3", "198.18.0.4"].map(str::to_owned);
        let usual = settings("n1", &addresses, &Options::default());
        assert!(
            usual.contains("\"nats-route://198.18.0.4:6222\"]") && !usual.contains("sync_interval"),
            "{usual}"
        );
        let always = Options { nats_sync: NatsSync::Always, ..Options::default() };
        let alone = settings("n1", &addresses[..1], &always);
        assert!(alone.contains("sync_interval: always") && !alone.contains("cluster"), "{alone}");
    }

    #[test]
    fn a_bucket_has_an_odd_number_of_replicas_and_a_ttl() {
        let check = |nodes| check_nodes(&NATS, nodes);
        assert!(check(3).is_ok() && check(1).is_ok() && check(4).is_err() && check(7).is_err());
        assert!(check_ttl(Duration::from_millis(99)).is_err());
        assert_eq!(check_ttl(TTL_MIN), Ok(()));
    }
}
