//! What crashed runs left in the engine. Containers end by themselves when their controller is gone, but one that was
//! made and never started does not, and neither does a network.

use super::containers::{Network, remove_network, remove_run};
use super::engine::{Engine, failed};
use super::labels::{LOCK, MACHINE, RUN, machine};
use crate::ClusterError;
use crate::file_lock::is_over;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// How long the engine may take to let go of the ends of containers that have just ended.
const LET_GO: Duration = Duration::from_secs(1);

/// Removes the containers and networks of runs of this machine whose controllers are dead.
pub(super) async fn remove(engine: &Engine) -> Result<Vec<String>, ClusterError> {
    let docker = &engine.docker;
    let filters = HashMap::from([("label", vec![RUN.to_owned()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let containers = docker.list_containers(Some(options)).await;
    let containers = containers.map_err(|error| failed("list containers", &error))?;
    let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
    let networks = docker.list_networks(Some(options)).await;
    let networks = networks.map_err(|error| failed("list networks", &error))?;

    let dead = |labels: &Option<HashMap<String, String>>| {
        let labels = labels.as_ref()?;
        let ours = labels.get(MACHINE) == Some(&machine());
        (ours && is_over(labels.get(LOCK)?.as_ref())).then(|| labels.get(RUN).cloned())?
    };
    let mut removed = Vec::new();
    let runs: BTreeSet<String> = containers.iter().filter_map(|container| dead(&container.labels)).collect();
    for run in runs {
        remove_run(docker, &run).await?;
        removed.push(format!("removed the containers of the crashed run {run}"));
    }
    for network in networks.iter().filter(|network| dead(&network.labels).is_some()) {
        let name = network.name.as_deref().unwrap_or_default();
        if remove_network(docker, name, LET_GO).await? == Network::Removed {
            removed.push(format!("removed the network {name} of a crashed run"));
        }
    }
    Ok(removed)
}
