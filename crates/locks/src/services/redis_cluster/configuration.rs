//! How the servers of a cluster are set up.

use crate::options::Options;
use crate::services::redis::service::{self as redis, PORT};
use fencepost_cluster::protocol::Service;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The first nodes are primaries, to begin with; as many replicas follow, in the same order.
pub(super) const SHARDS: usize = 3;
pub(super) const SERVERS: usize = 2 * SHARDS;
/// Before the name of each lock: keys with the same text in braces have the same hash slot.
pub(super) const TAG: &str = "{lock}:";
/// The slot of the tag, as servers say (`CLUSTER KEYSLOT {lock}:`). It belongs to the second shard.
pub(super) const SLOT: u16 = 8718;
const SLOTS: usize = 16384;
/// After this time without an answer a server counts as down. The usual 15 s are longer than most TTLs.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// A server rewrites its view of the cluster when roles change, and must find it after a restart. So the
/// first view is made once. Arguments: the file, its content, the server and its arguments.
const START: &str =
    r#"[ -s "$1" ] || { printf '%s' "$2" > "$1" && sync "$1"; } || exit 1; shift 2; exec "$@""#;

pub(super) fn server(index: usize, addresses: &[Ipv4Addr], options: &Options) -> Service {
    let file = "{data}/nodes.conf";
    let mut argv = ["sh", "-c", START, "sh", file].map(str::to_owned).to_vec();
    argv.push(first_view(index, addresses));
    argv.extend(redis::start_command(options).argv);
    let timeout_ms = NODE_TIMEOUT.as_millis().to_string();
    let settings = [
        ("--cluster-enabled", "yes"),
        ("--cluster-config-file", file),
        ("--cluster-node-timeout", &timeout_ms),
        ("--repl-diskless-sync-delay", "0"),
    ];
    argv.extend(settings.into_iter().flat_map(|(option, value)| [option.to_owned(), value.to_owned()]));
    if options.tls {
        argv.extend(["--tls-cluster", "yes"].map(str::to_owned));
    }
    Service { name: "redis".to_owned(), argv, env: Vec::new(), refuses_root: false }
}

/// The file of a server's view of the cluster, as it would have written it once all had met.
fn first_view(own: usize, addresses: &[Ipv4Addr]) -> String {
    let mut lines = String::new();
    for (index, address) in addresses.iter().enumerate() {
        let myself = if index == own { "myself," } else { "" };
        let shard = index % SHARDS;
        let (role, of, slots) = match index == shard {
            true => {
                ("master", "-".to_owned(), format!(" {}-{}", first_slot(shard), first_slot(shard + 1) - 1))
            }
            false => ("slave", identity(shard), String::new()),
        };
        let _ = writeln!(
            lines,
            "{} {address}:{PORT}@{} {myself}{role} {of} 0 0 {} connected{slots}",
            identity(index),
            PORT + 10000,
            shard + 1,
        );
    }
    let _ = writeln!(lines, "vars currentEpoch {SHARDS} lastVoteEpoch 0");
    lines
}

fn first_slot(shard: usize) -> usize {
    SLOTS * shard / SHARDS
}

/// 40 hexadecimal digits, as servers draw them.
fn identity(index: usize) -> String {
    format!("{:040x}", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_view_has_every_slot_once_and_a_replica_for_each_primary() {
        let addresses: Vec<Ipv4Addr> = (2..8).map(|last| Ipv4Addr::new(198, 18, 0, last)).collect();
        let view = first_view(4, &addresses);
        let lines: Vec<&str> = view.lines().collect();
        assert!(lines[0].ends_with("198.18.0.2:6379@16379 master - 0 0 1 connected 0-5460"), "{view}");
        assert!(lines[1].ends_with("master - 0 0 2 connected 5461-10921"), "{view}");
        assert!(lines[2].ends_with("connected 10922-16383"), "{view}");
        let second = identity(1);
        assert!(lines[4].contains(&format!(" myself,slave {second} 0 0 2 connected")), "{view}");
        assert_eq!(view.matches("myself").count(), 1);
        assert!(
            (first_slot(1)..first_slot(2)).contains(&usize::from(SLOT)),
            "the slot is the second shard's"
        );
    }
}
