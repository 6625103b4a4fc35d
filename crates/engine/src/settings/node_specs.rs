//! What a run is called on this machine, and what its nodes are made of.

use crate::settings::validation::RunSpec;
use fencepost_cluster::NodeSpec;
use fencepost_cluster::protocol::NodeLimits;
use fencepost_history::NodeKind;
use fencepost_nemesis::Topology;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of a client in MiB, where the options do not say it: room for programs of a virtual machine.
const CLIENT_MEMORY_MIB: u32 = 2048;

/// A client keeps its state in a service, and needs its disk for little more than logs.
const CLIENT_DISK_BYTES: u64 = 1 << 30;

/// A name that no other run on this machine has, nor another run of this program.
pub(crate) fn run_name(spec: &RunSpec) -> String {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{}", std::process::id(), spec.seed)
}

pub(crate) fn node_specs(spec: &RunSpec) -> Vec<NodeSpec> {
    let existing = spec.options.existing.are_used();
    let program = spec.lock.recipe.program();
    // What stands for a server that exists already runs Fencepost's own program alone.
    let (server_image, of_server) = match existing {
        true => ("client", None),
        // The refusals of the options were checked.
        false => (
            spec.lock.service.image(&spec.options.lock_options).unwrap_or("client"),
            spec.lock.service.environment(&spec.options.lock_options).ok().flatten(),
        ),
    };
    let memory_mib = spec.options.client_memory.unwrap_or(CLIENT_MEMORY_MIB);
    let limits = NodeLimits { memory_bytes: u64::from(memory_mib) << 20, disk_bytes: CLIENT_DISK_BYTES };
    let server = NodeSpec {
        name: String::new(),
        kind: NodeKind::Server,
        image: server_image,
        may_mount: spec.prepares_disks(),
        environment: of_server,
        limits: None,
        writes_hosts: false,
    };
    let storage = NodeSpec {
        kind: NodeKind::Storage,
        image: "client",
        may_mount: false,
        environment: None,
        ..server.clone()
    };
    let client = NodeSpec {
        kind: NodeKind::Client,
        environment: program.and_then(|program| program.environment.clone()),
        limits: Some(limits),
        writes_hosts: spec.topology.by_name,
        ..storage.clone()
    };
    let named = |names: &[String], of: NodeSpec| {
        names.iter().map(|name| NodeSpec { name: name.clone(), ..of.clone() }).collect::<Vec<_>>()
    };
    let Topology { servers, clients, .. } = &spec.topology;
    [named(servers, server), named(&spec.storages, storage), named(clients, client)].concat()
}
