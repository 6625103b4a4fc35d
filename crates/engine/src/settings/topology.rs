//! The nodes of a run, by name: what its options and its lock ask for.

use crate::settings::options::RunOptions;
use fencepost_history::STORAGE_NODE;
use fencepost_locks::{LockDefinition, is_acquiring};
use fencepost_nemesis::{RecipePoint, Topology};
use fencepost_workloads::Workload;

pub(crate) const STORAGE_PORT: u16 = 7000;

/// Whether the run has a storage of its own: not where the lock service keeps the data itself.
fn has_storage(options: &RunOptions, lock: &LockDefinition, workload: &Workload) -> bool {
    workload.uses_storage && !lock.capabilities(&options.lock_options).own_storage
}

/// The nodes that a fault can be injected into.
pub fn topology(options: &RunOptions, lock: &LockDefinition, workload: &Workload) -> Topology {
    Topology {
        servers: server_names(options, lock),
        clients: (1..=options.clients).map(|number| format!("c{number}")).collect(),
        storage: has_storage(options, lock, workload).then(|| STORAGE_NODE.to_owned()),
        has_leader: lock.service.leadership.is_some() && !options.existing.are_used(),
        orders: match options.existing.are_used() {
            true => &[],
            false => lock.service.orders.map_or(&[], |orders| orders.names),
        },
        points: recipe_points(options, lock),
        ttl: options.ttl.0 + lock.capabilities(&options.lock_options).lock_delay,
        server_faults: options.existing.server_faults(),
        by_name: options.by_name,
    }
}

/// The points at which clients can be made slow: those of the recipe, and of every careful client.
fn recipe_points(options: &RunOptions, lock: &LockDefinition) -> Vec<RecipePoint> {
    let can = lock.capabilities(&options.lock_options);
    let of_lock = can.points.iter().copied();
    let careful = lock.recipe.program().is_none() && options.careful && !can.own_storage;
    let names = of_lock.chain(careful.then_some(fencepost_locks::BETWEEN_CHECK_AND_WRITE));
    names.map(|name| RecipePoint { name: name.to_owned(), is_acquiring: is_acquiring(name) }).collect()
}

/// `n1`, `n2`, …; empty for a lock without servers.
fn server_names(options: &RunOptions, lock: &LockDefinition) -> Vec<String> {
    if lock.service.image(&options.lock_options).is_none() {
        return Vec::new();
    }
    let count = match options.existing.servers.len() {
        0 => options.lock_options.nodes.unwrap_or_else(|| lock.service.default_nodes()),
        existing => existing,
    };
    (1..=count).map(|number| format!("n{number}")).collect()
}

/// `storage`; with replicas also `storage-2`, ….
pub(crate) fn storage_names(options: &RunOptions, lock: &LockDefinition, workload: &Workload) -> Vec<String> {
    if !has_storage(options, lock, workload) {
        return Vec::new();
    }
    let replicas = fencepost_storage::find_guard(&options.guard).map_or(1, |guard| guard.replicas);
    let name =
        |number| if number == 1 { STORAGE_NODE.to_owned() } else { format!("{STORAGE_NODE}-{number}") };
    (1..=replicas).map(name).collect()
}
