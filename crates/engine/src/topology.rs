//! The nodes of a run, by name: what its options and its lock ask for.

use crate::options::RunSpec;
use fencepost_locks::LockDefinition;
use fencepost_nemesis::Scene;
use fencepost_workloads::Workload;

/// Whether the run has a storage of its own: not where the lock service keeps the data itself.
fn has_storage(spec: &RunSpec, backend: &LockDefinition, workload: &dyn Workload) -> bool {
    workload.uses_storage() && !backend.capabilities(&spec.options).own_storage
}

/// The nodes that a fault can be injected into.
pub fn scene(spec: &RunSpec, backend: &LockDefinition, workload: &dyn Workload) -> Scene {
    Scene {
        servers: server_names(spec, backend),
        clients: client_names(spec),
        storage: has_storage(spec, backend, workload).then(|| "storage".to_owned()),
        has_leader: backend.service.leadership().is_some(),
        ttl: spec.ttl(),
    }
}

/// `n1`, `n2`, …; empty for a lock without servers.
pub(crate) fn server_names(spec: &RunSpec, backend: &LockDefinition) -> Vec<String> {
    if backend.service.image().is_none() {
        return Vec::new();
    }
    let count = spec.options.nodes.unwrap_or_else(|| backend.service.default_nodes());
    (1..=count).map(|number| format!("n{number}")).collect()
}

/// `storage`; with replicas also `storage-2`, ….
pub(crate) fn storage_names(
    spec: &RunSpec,
    backend: &LockDefinition,
    workload: &dyn Workload,
) -> Vec<String> {
    if !has_storage(spec, backend, workload) {
        return Vec::new();
    }
    let replicas = fencepost_storage::find_guard(&spec.guard).map_or(1, |guard| guard.replicas());
    let name = |number| if number == 1 { "storage".to_owned() } else { format!("storage-{number}") };
    (1..=replicas).map(name).collect()
}

/// The clients that a spec asks for: `c1`, `c2`, ….
pub fn client_names(spec: &RunSpec) -> Vec<String> {
    (1..=spec.clients).map(|number| format!("c{number}")).collect()
}
