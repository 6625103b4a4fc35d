//! The labels by which all that a run makes in the engine is found again, and the locks that they name.

use crate::cluster_folder::ClusterFolder;
use crate::driver::ClusterSpec;
use crate::file_lock::{self, FileLock};
use crate::hash::short_hash;
use crate::{ClusterError, cache};
use std::collections::HashMap;

pub(super) const RUN: &str = "fencepost.run";
pub(super) const LOCK: &str = "fencepost.lock";
/// Label: the machine of the controller. Several machines can share an engine.
pub(super) const MACHINE: &str = "fencepost.machine";

/// The labels of everything that a run makes.
pub fn of_run(run: &str, folder: &ClusterFolder) -> HashMap<String, String> {
    let lock = folder.lock_file().display().to_string();
    HashMap::from(
        [(RUN, run.to_owned()), (LOCK, lock), (MACHINE, machine())]
            .map(|(name, value)| (name.to_owned(), value)),
    )
}

/// Labels of a container in which something is made, to find it if its controller was killed.
pub(super) fn of_making(lock_name: &str) -> Result<HashMap<String, String>, ClusterError> {
    let lock = cache::folder()?.join("locks").join(lock_name).display().to_string();
    let labels = [(RUN, ClusterSpec::own_name("setup")), (LOCK, lock), (MACHINE, machine())];
    Ok(labels.map(|(name, value)| (name.to_owned(), value)).into())
}

pub(super) fn machine() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let name = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{} {name}", id.trim())
}

/// The name of a run's network, and prefix of its containers; unique among machines that share an engine.
pub fn name_of_run(run: &str) -> String {
    format!("fencepost-{run}-{}", short_hash(machine().as_bytes()))
}

pub(super) fn filter_of_run(run: &str) -> HashMap<&'static str, Vec<String>> {
    HashMap::from([("label", vec![format!("{RUN}={run}"), format!("{MACHINE}={}", machine())])])
}

pub(super) async fn lock(name: &str) -> Result<FileLock, ClusterError> {
    file_lock::lock_blocking(cache::folder()?.join("locks").join(name)).await
}
