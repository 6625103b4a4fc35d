//! `redis-single`, `redis-election` and `valkey`: one server. The recipe is in lock.rs.

use super::lock::{RedisRecipe, capabilities, check_recipe};
use super::node::{RedisDialer, RedisNode};
use super::service::{INDEPENDENT, SERVER};
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::{ClientError, OptionError, nodes_are, refuse};
use crate::options::Options;
use crate::protocol::Hello;
use crate::service::LockService;
use fencepost_cluster::images::ServerChoice;
use fencepost_history::LockKind;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-single",
    about: "one Redis server: SET NX PX with a unique value, released by a compare-and-delete script",
    claims: "exclusion while the server keeps its data and its clock and holders stop within the TTL; ownership; progress; no fencing",
    service: &REDIS_SERVER,
    recipe: &RedisRecipe {
        check: check_recipe,
        node: |hello, dialer| one_node(hello, "redis-single", dialer),
        renews: false,
    },
    options: &["acquire", "release", "prolong", "value", "watchdog"],
    capabilities,
};

/// Source: the recipe of [`LOCK`] with a watchdog, as libraries elect leaders by it.
pub(super) static ELECTION: LockDefinition = LockDefinition {
    name: "redis-election",
    about: "SET NX PX with a unique value, renewed at a third of the TTL for as long as its process leads",
    claims: LOCK.claims,
    service: &REDIS_SERVER,
    recipe: &RedisRecipe {
        check: |_| Ok(()),
        node: |hello, dialer| one_node(hello, "redis-election", dialer),
        renews: true,
    },
    options: &["blind-renewal"],
    capabilities: |options| Capabilities {
        kind: LockKind::Election,
        leader: true,
        ..capabilities(&Options { watchdog: true, ..options.clone() })
    },
};

static REDIS_SERVER: LockService = LockService {
    name: "redis",
    about: "one Redis server",
    kinds: &[SERVER],
    check_nodes: |_, nodes| {
        nodes_are!(
            nodes == 1,
            "redis-single has one server, not {nodes}; use --lock redlock for several, or --nodes 1"
        )
    },
    ..INDEPENDENT
};

/// Source: the Valkey documentation of `SET` (`IFEQ`) and of `DELIFEQ`, made for the release of a lock.
pub(super) static VALKEY: LockDefinition = LockDefinition {
    name: "valkey",
    about: "one Valkey server: SET NX PX with a unique value, renewed by SET IFEQ and released by DELIFEQ",
    claims: LOCK.claims,
    service: &VALKEY_SERVER,
    recipe: &RedisRecipe {
        check: check_valkey,
        node: |hello, dialer| Ok(one_node(hello, "valkey", dialer)?.with_commands()),
        renews: false,
    },
    options: LOCK.options,
    capabilities,
};

static VALKEY_SERVER: LockService = LockService {
    name: "valkey",
    about: "one Valkey server",
    servers: &["valkey"],
    kinds: &[SERVER],
    check_nodes: |_, nodes| {
        nodes_are!(
            nodes == 1,
            "valkey has one server, not {nodes}; use --lock redlock --server valkey-9.1 for several, or --nodes 1"
        )
    },
    ..INDEPENDENT
};

pub(super) fn one_node(hello: &Hello, lock: &str, dialer: RedisDialer) -> Result<RedisNode, ClientError> {
    Ok(RedisNode::open(hello.one_server(lock)?, &dialer))
}

fn check_valkey(options: &Options) -> Result<(), OptionError> {
    match options.server {
        Some(ServerChoice::Release(release)) if options.watchdog && release.version == "8.0" => refuse!(
            "watchdog",
            "valkey renews by SET IFEQ, which Valkey has since 8.1; use --server valkey-8.1, or leave out --watchdog"
        ),
        _ => check_recipe(options),
    }
}
