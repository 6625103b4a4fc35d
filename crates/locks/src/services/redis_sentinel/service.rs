//! The servers of `redis-sentinel`, as a lock service; and its lock: that of `redis-single`, on whichever
//! server is the primary.

use super::configuration::{self, DATA_NODES, GROUP, SENTINELS};
use super::{leader, primary};
use crate::definition::LockDefinition;
use crate::error::{OptionError, nodes_are, refuse};
use crate::options::Options;
use crate::service::{LockService, ServerKind, ServiceLeadership};
use crate::services::redis::access;
use crate::services::redis::lock::{RedisRecipe, capabilities, check_recipe};
use crate::services::redis::service::{INDEPENDENT, SERVER};
use futures_util::FutureExt;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-sentinel",
    about: "a Redis primary with two replicas (n1 to n3) and three Sentinels (n4 to n6); locks as redis-single",
    claims: "exclusion until a failover, which forgets locks that were not replicated (fewer with --wait); ownership; progress; availability with one of each kind down; no fencing",
    service: &SENTINEL,
    recipe: &RedisRecipe {
        check,
        node: |hello, dialer| {
            hello.all_servers("redis-sentinel", DATA_NODES + SENTINELS)?;
            let (data, sentinels) = hello.servers.split_at(DATA_NODES);
            Ok(primary::open(data, sentinels, dialer))
        },
        renews: false,
    },
    options: &["acquire", "release", "prolong", "value", "watchdog", "wait"],
    capabilities,
};

fn check(options: &Options) -> Result<(), OptionError> {
    match options.wait {
        Some(0) => refuse!("wait", "--wait 0 waits for no replica; leave it out"),
        Some(wait) if wait as usize >= DATA_NODES => refuse!(
            "wait",
            "--wait {wait} can never be reached: there are {} replicas; use --wait 1 or --wait 2",
            DATA_NODES - 1
        ),
        _ => check_recipe(options),
    }
}

static SENTINEL: LockService = LockService {
    name: "redis-sentinel",
    about: "a Redis with two replicas and three Sentinels, in this order: all of them are in the list of servers (group: fencepost)",
    kinds: &[ServerKind { count: DATA_NODES + SENTINELS, ..SERVER }],
    check_nodes: |_, nodes| {
        nodes_are!(
            nodes == DATA_NODES + SENTINELS,
            "redis-sentinel has a primary, two replicas and three Sentinels, not {nodes} servers; leave --nodes out"
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
