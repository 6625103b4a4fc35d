//! The servers of `redis-sentinel`, as a lock service.

use super::configuration::{self, DATA_NODES, GROUP, SENTINELS};
use super::leader;
use crate::error::nodes_are;
use crate::service::{LockService, ServerKind, ServiceLeadership};
use crate::services::redis::access;
use crate::services::redis::service::{INDEPENDENT, SERVER};
use futures_util::FutureExt;

pub(super) static SENTINEL: LockService = LockService {
    name: "redis-sentinel",
    about: "a Redis with two replicas and three Sentinels, in this order: all of them are in the list of servers (group: fencepost)",
    kinds: &[ServerKind { count: DATA_NODES + SENTINELS, ..SERVER }],
    check_nodes: |_, nodes| {
        nodes_are(
            nodes == DATA_NODES + SENTINELS,
            format!(
                "redis-sentinel has a primary, two replicas and three Sentinels, not {nodes} servers; leave --nodes out"
            ),
        )
    },
    start: |_, index, nodes, options| {
        let addresses: Vec<_> = nodes.iter().map(|node| node.address()).collect();
        match index.checked_sub(DATA_NODES) {
            None => configuration::data_node(index, &addresses, options),
            Some(sentinel) => configuration::sentinel(sentinel, &addresses, options),
        }
    },
    access_files: |access| access::files(access, Some(GROUP)),
    // Only before a run: what replicates from which other server changes with every failover.
    gather: |_, nodes| Box::pin(configuration::await_replicated(nodes)),
    leadership: Some(ServiceLeadership {
        leader: |_, nodes| Box::pin(leader::leader(nodes).map(Ok)),
        transfer: |_, nodes, _| Box::pin(leader::transfer(nodes)),
    }),
    sends_clients_on: true,
    existing: None,
    orders: Some(super::reset::ORDERS),
    ..INDEPENDENT
};
