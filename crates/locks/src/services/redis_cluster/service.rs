//! The servers of `redis-cluster`, as a lock service; and its lock: that of `redis-single`, on the current
//! primary of the locks' shard.

use super::configuration::{self, SERVERS, SHARDS, SLOT, TAG};
use super::{reshard, shard, view};
use crate::definition::LockDefinition;
use crate::error::{OptionError, nodes_are, refuse};
use crate::options::Options;
use crate::readiness::{Awaited, START_TIME};
use crate::service::{LockService, ServerKind, ServiceLeadership, ServiceOrders};
use crate::services::redis::lock::{RedisRecipe, capabilities, check_recipe};
use crate::services::redis::orders;
use crate::services::redis::service::{INDEPENDENT, SERVER, ask};
use fencepost_cluster::{ClusterError, Node};
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Duration;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-cluster",
    about: "a Redis Cluster of three primaries (n1 to n3) with a replica each (n4 to n6); locks as redis-single, all on one shard",
    claims: "exclusion until a failover of the shard, which forgets locks that were not replicated (fewer with --wait 1); ownership; progress; availability with one server down; no fencing",
    service: &CLUSTER,
    recipe: &RedisRecipe {
        check,
        node: |hello, dialer| {
            hello.all_servers("redis-cluster", SERVERS)?;
            Ok(shard::open(&hello.servers, dialer))
        },
        renews: false,
    },
    options: &["acquire", "release", "prolong", "value", "watchdog", "wait"],
    capabilities,
};

fn check(options: &Options) -> Result<(), OptionError> {
    let replicas = SERVERS / SHARDS - 1;
    match options.wait {
        Some(wait) if wait as usize != replicas => refuse!(
            "wait",
            "a primary of redis-cluster has one replica, not {wait}; use --wait 1, or leave it out"
        ),
        _ => check_recipe(options),
    }
}

static CLUSTER: LockService = LockService {
    name: "redis-cluster",
    about: "a Redis Cluster of three primaries and a replica of each, in this order: all of them are in the list of servers",
    kinds: &[ServerKind { count: SERVERS, ..SERVER }],
    // Two may be the locks' primary and its only replica.
    may_be_down: Some(SERVERS / SHARDS - 1),
    // A primary that starts takes writes 2 s later (`CLUSTER_WRITABLE_DELAY`).
    setup_time: Duration::from_secs(3),
    check_nodes: |_, nodes| {
        nodes_are!(
            nodes == SERVERS,
            "redis-cluster has three primaries and a replica of each, not {nodes} servers; leave --nodes out"
        )
    },
    start: |_, index, nodes, options| {
        let addresses: Vec<_> = nodes.iter().map(|node| node.address()).collect();
        configuration::server(index, &addresses, options)
    },
    // Only before a run: roles may change, and a cluster without a majority is no fault of one server.
    gather: |_, nodes| Box::pin(await_whole(nodes)),
    leadership: Some(ServiceLeadership {
        leader: |_, nodes| Box::pin(view::leader(nodes).map(Ok)),
        transfer: |_, nodes, _| Box::pin(view::transfer(nodes)),
    }),
    sends_clients_on: true,
    existing: None,
    orders: Some(ORDERS),
    ..INDEPENDENT
};

const ORDERS: ServiceOrders = ServiceOrders {
    names: &["error-replies:oom", "error-replies:noreplicas", "script-flush:", reshard::ORDER],
    begin: |node, order| match order {
        reshard::ORDER => Box::pin(reshard::give_away(node)),
        _ => (orders::INDEPENDENT.begin)(node, order),
    },
    end: |node, order| match order {
        reshard::ORDER => Box::pin(reshard::take_back(node)),
        _ => (orders::INDEPENDENT.end)(node, order),
    },
};

/// Returns when each server has its place in the cluster, and the locks' slot is the one that it should be.
async fn await_whole(nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
    for node in nodes {
        let trouble = async || {
            let state = ask(node, &["CLUSTER", "INFO"]).await?;
            let replication = ask(node, &["INFO", "replication"]).await?;
            Ok(missing(&state, &replication).map(str::to_owned))
        };
        let awaited = Awaited { node, server: "Redis", services: &["redis"], within: START_TIME };
        awaited.serves(trouble).await?;
    }
    if let Some(node) = nodes.first() {
        let slot = ask(node, &["CLUSTER", "KEYSLOT", TAG]).await?.concat();
        if slot != SLOT.to_string() {
            return Err(format!("{} says that {TAG} has the slot {slot}, not {SLOT}", node.name()).into());
        }
    }
    Ok(())
}

/// What a server lacks to be part of a whole cluster, by its own answers.
fn missing(state: &[String], replication: &[String]) -> Option<&'static str> {
    let says = |lines: &[String], line: &str| lines.iter().any(|own| own == line);
    if !says(state, "cluster_state:ok") {
        return Some("its cluster_state is not ok");
    }
    let is_replica = says(replication, "role:slave");
    (is_replica && !says(replication, "master_link_status:up"))
        .then_some("it has not the data of its primary")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_in_a_whole_cluster_and_with_the_data_of_its_primary() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let ready = |state, replication| missing(&lines(state), &lines(replication)).is_none();
        assert!(ready("cluster_state:ok", "role:master"));
        assert!(ready("cluster_state:ok", "role:slave master_link_status:up"));
        assert!(!ready("cluster_state:fail", "role:master"));
        assert!(!ready("cluster_state:ok", "role:slave master_link_status:down"));
    }
}
