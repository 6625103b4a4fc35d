//! What crashed runs left in the engine: networks, and containers that never started (others end).

use super::containers::{DockerNetwork, remove_network, remove_run};
use super::engine::{Engine, failed};
use super::labels::{LOCK, MACHINE, RUN, machine};
use crate::ClusterError;
use crate::cleaned::{Cleaned, LeftoverKind};
use crate::file_lock::is_over;
use bollard::Docker;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How long the engine may take to let go of the ends of containers that have just ended.
const LET_GO: Duration = Duration::from_secs(1);

pub(crate) async fn clean_up(engine: &Engine, limit: Duration) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let removing = tokio::time::timeout(limit, remove(&engine.docker, &mut cleaned)).await;
    let late = || {
        let seconds = limit.as_secs();
        Err(ClusterError::new(format!(
            "the Docker engine did not remove within {seconds} s what killed runs left in it; restart it"
        )))
    };
    if let Err(error) = removing.unwrap_or_else(|_| late()) {
        cleaned.failures.push(error.0);
    }
    cleaned
}

async fn remove(docker: &Docker, cleaned: &mut Cleaned) -> Result<(), ClusterError> {
    let filters = HashMap::from([("label", vec![RUN.to_owned()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let containers = docker.list_containers(Some(options)).await.map_err(failed("list containers"))?;
    let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
    let networks = docker.list_networks(Some(options)).await.map_err(failed("list networks"))?;

    for (run, names) in by_dead_run(&containers) {
        match remove_run(docker, run).await {
            Ok(()) => names.iter().for_each(|name| cleaned.removed(LeftoverKind::Container, name)),
            Err(error) => cleaned.failures.push(error.0),
        }
    }
    let mut kept = Vec::new();
    for network in networks.iter().filter(|network| dead_run(network.labels.as_ref()).is_some()) {
        let name = network.name.as_deref().unwrap_or_default();
        match remove_network(docker, name, LET_GO).await {
            Ok(DockerNetwork::Removed) => cleaned.removed(LeftoverKind::Network, name),
            Ok(DockerNetwork::Kept) => kept.push(name),
            Err(error) => cleaned.failures.push(error.0),
        }
    }
    cleaned.failures.extend(kept_by_engine(&kept));
    Ok(())
}

/// One sentence for all networks that the engine does not let go, since every run finds them again.
fn kept_by_engine(names: &[&str]) -> Option<String> {
    let networks = match names {
        [] => return None,
        [name] => format!("the network {name}"),
        [name, others @ ..] => format!("{} networks ({name} and {} more)", names.len(), others.len()),
    };
    Some(format!(
        "the Docker engine keeps {networks}, to which nothing is attached any more, until it is restarted"
    ))
}

fn by_dead_run(containers: &[ContainerSummary]) -> BTreeMap<&str, Vec<String>> {
    let mut runs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for container in containers {
        let Some(run) = dead_run(container.labels.as_ref()) else { continue };
        let name = container.names.as_deref().and_then(<[String]>::first).or(container.id.as_ref());
        runs.entry(run).or_default().push(name.map_or("", |name| name.trim_start_matches('/')).to_owned());
    }
    runs
}

/// The run that these labels name, if it is one of this machine whose controller is dead.
fn dead_run(labels: Option<&HashMap<String, String>>) -> Option<&str> {
    let labels = labels?;
    let ours = labels.get(MACHINE) == Some(&machine());
    (ours && is_over(labels.get(LOCK)?.as_ref())).then(|| labels.get(RUN).map(String::as_str))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_that_the_engine_keeps_are_one_sentence() {
        assert_eq!(kept_by_engine(&[]), None);
        assert!(kept_by_engine(&["a"]).unwrap().contains("keeps the network a, to which"));
        assert!(
            kept_by_engine(&["a", "b", "c"]).unwrap().contains("keeps 3 networks (a and 2 more), to which")
        );
    }
}
