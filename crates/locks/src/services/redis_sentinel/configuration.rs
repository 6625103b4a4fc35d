//! The server side: how primary, replicas and Sentinels are set up, and when they are ready.

use crate::options::Options;
use crate::readiness::{Awaited, START_TIME};
use crate::services::redis::access;
use crate::services::redis::service::{self as redis, PORT};
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// The first nodes hold the data: a primary, at first n1, and its replicas.
pub(super) const DATA_NODES: usize = 3;
pub(super) const SENTINELS: usize = 3;
/// The name under which Sentinels know the primary and its replicas.
pub(super) const GROUP: &str = "fencepost";
/// How many Sentinels must agree that the primary is down.
const QUORUM: usize = 2;
/// A primary that does not answer for this long is down in a Sentinel's eyes.
const DOWN_AFTER: Duration = Duration::from_secs(1);
/// After twice this time a failover that came to nothing is tried again.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(3);

/// A server and a Sentinel rewrite their configuration when roles change, and must find it again when they
/// are started anew. So it is made at the first start only. A Sentinel waits before that until the data nodes
/// answer: on a busy machine it would otherwise find the primary down before that was up, promote another as
/// the run begins, and then no server for twice [`FAILOVER_TIMEOUT`]. Arguments: the file, its first content,
/// the addresses to wait for in one, the file of the access or nothing, the server and its arguments.
const START: &str = r#"file=$1
[ -e "$file" ] || {
  for address in $3; do until [ "$(cli "$address" PING 2>&1)" = PONG ]; do sleep 0.05; done; done
  printf '%s' "$2" > "$file"
  [ -z "$4" ] || cat "$4" >> "$file"
}
shift 4; exec "$@""#;

/// Primary (index 0, to begin with) or replica.
pub(super) fn data_node(index: usize, addresses: &[Ipv4Addr], options: &Options) -> Service {
    let file = "{data}/redis.conf";
    let content = match index {
        0 => String::new(),
        _ => format!("replicaof {} {PORT}\n", addresses[0]),
    };
    let mut command = vec!["redis-server".to_owned(), file.to_owned()];
    command.extend(redis::arguments(options));
    // A replica that comes back gets the data at once, and not 5 s later, when others might have come, too.
    command.extend(["--repl-diskless-sync-delay".to_owned(), "0".to_owned()]);
    let access = access_file(options, access::CONFIGURATION);
    service("redis", file, content, &[], access, command)
}

/// Sentinel number `index`, from 0. Their addresses follow those of the data nodes.
pub(super) fn sentinel(index: usize, addresses: &[Ipv4Addr], options: &Options) -> Service {
    let file = "{data}/sentinel.conf";
    let command = ["redis-server", file, "--sentinel"].map(str::to_owned).to_vec();
    let content = configuration(index, addresses, options);
    let access = access_file(options, access::SENTINEL_CONFIGURATION);
    service("sentinel", file, content, &addresses[..DATA_NODES], access, command)
}

/// The file with what servers ask of clients, where they ask for anything.
fn access_file<'a>(options: &Options, file: &'a str) -> &'a str {
    if options.tls || options.auth { file } else { "" }
}

/// What Sentinels write once they have discovered each other, so that nothing has to be discovered.
fn configuration(index: usize, addresses: &[Ipv4Addr], options: &Options) -> String {
    let (data, sentinels) = addresses.split_at(DATA_NODES);
    let port = if options.tls { format!("port 0\ntls-port {PORT}") } else { format!("port {PORT}") };
    let mut lines = format!(
        "{port}\nbind 0.0.0.0\nprotected-mode no\ndir \"{{data}}\"\n\
         sentinel myid {}\n\
         sentinel monitor {GROUP} {} {PORT} {QUORUM}\n\
         sentinel down-after-milliseconds {GROUP} {}\n\
         sentinel failover-timeout {GROUP} {}\n",
        identity(index),
        data[0],
        DOWN_AFTER.as_millis(),
        FAILOVER_TIMEOUT.as_millis(),
    );
    for replica in &data[1..] {
        let _ = writeln!(lines, "sentinel known-replica {GROUP} {replica} {PORT}");
    }
    for (other, address) in sentinels.iter().enumerate().filter(|(other, _)| *other != index) {
        let _ = writeln!(lines, "sentinel known-sentinel {GROUP} {address} {PORT} {}", identity(other));
    }
    lines
}

/// 40 hexadecimal digits, as Sentinels draw them.
fn identity(index: usize) -> String {
    format!("{:040x}", index + 1)
}

fn service(
    name: &str,
    file: &str,
    content: String,
    awaited: &[Ipv4Addr],
    access: &str,
    command: Vec<String>,
) -> Service {
    let awaited: Vec<String> = awaited.iter().map(ToString::to_string).collect();
    let mut argv = ["sh", "-c", &format!("{}{START}", access::CLI), "sh", file].map(str::to_owned).to_vec();
    argv.extend([content, awaited.join(" "), access.to_owned()]);
    argv.extend(command);
    Service { name: name.to_owned(), argv, env: Vec::new(), refuses_root: false }
}

/// Returns when both replicas have the primary's data and each Sentinel sees all of it.
pub(super) async fn await_replicated(nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
    let (data, sentinels) = nodes.split_at(DATA_NODES);
    for replica in &data[1..] {
        await_line(replica, "redis", &["INFO", "replication"], "master_link_status:up").await?;
    }
    for sentinel in sentinels {
        let whole = format!("status=ok,address={}:{PORT},slaves=2,sentinels=3", data[0].address());
        await_line(sentinel, "sentinel", &["INFO", "sentinel"], &whole).await?;
    }
    Ok(())
}

async fn await_line(
    node: &Arc<dyn Node>,
    service: &str,
    question: &[&str],
    wanted: &str,
) -> Result<(), ClusterError> {
    let awaited = Awaited { node, server: "Redis", services: &[service], within: START_TIME };
    let trouble = async || {
        let answer = redis::ask(node, question).await?;
        let agrees = answer.iter().any(|line| line.contains(wanted));
        Ok((!agrees).then(|| format!("redis-cli {} does not say {wanted}", question.join(" "))))
    };
    awaited.serves(trouble).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentinel_knows_everybody_else() {
        let addresses: Vec<Ipv4Addr> = (2..8).map(|last| Ipv4Addr::new(198, 18, 0, last)).collect();
        let text = configuration(1, &addresses, &Options::default());
        assert!(text.contains("sentinel monitor fencepost 198.18.0.2 6379 2"), "{text}");
        assert!(text.contains("known-replica fencepost 198.18.0.4 6379"), "{text}");
        assert!(
            text.contains("known-sentinel fencepost 198.18.0.5 6379") && text.contains("198.18.0.7"),
            "{text}"
        );
        assert!(!text.contains("198.18.0.6"), "itself: {text}");
    }

    #[test]
    fn a_sentinel_waits_for_the_data_nodes() {
        let addresses: Vec<Ipv4Addr> = (2..8).map(|last| Ipv4Addr::new(198, 18, 0, last)).collect();
        let argv = sentinel(1, &addresses, &Options::default()).argv;
        assert_eq!(argv[6], "198.18.0.2 198.18.0.3 198.18.0.4");
        assert_eq!(argv[8..], ["redis-server", "{data}/sentinel.conf", "--sentinel"]);
        assert_eq!(PORT, 6379, "the script asks at the port that redis-cli takes by itself");
    }
}
