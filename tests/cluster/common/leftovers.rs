//! What a run may have left on this machine.

use bollard::Docker;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};
use std::collections::HashMap;
use std::path::PathBuf;

/// The run's entry in the register of root's runs, and its private folder.
pub fn folders(run: &str) -> Vec<PathBuf> {
    let entry = PathBuf::from("/run/fencepost").join(run);
    let all = std::fs::read_dir(fencepost_cluster::place_of_private_folders())
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let prefix = format!("fencepost-{run}-");
    let is_its = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&prefix);
    all.filter(is_its).chain(entry.exists().then_some(entry)).collect()
}

/// Processes in a mount namespace that has a folder of the run, and mounts of it in our own namespace.
pub fn of_local_run(run: &str) -> Vec<String> {
    let wanted = format!("/fencepost-{run}-");
    let mut left = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let mounts = std::fs::read_to_string(path.join("mountinfo")).unwrap_or_default();
        if mounts.contains(&wanted) {
            let command = std::fs::read_to_string(path.join("cmdline")).unwrap_or_default();
            left.push(format!("{}: {}", path.display(), command.replace('\0', " ")));
        }
    }
    left
}

/// Containers and networks of the run.
pub async fn of_docker_run(run: &str) -> Vec<String> {
    let containers = containers(run).await;
    let docker = Docker::connect_with_defaults().unwrap();
    let filters = HashMap::from([("label", vec![format!("fencepost.run={run}")])]);
    let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
    let networks = docker.list_networks(Some(options)).await.unwrap();
    containers.into_iter().chain(networks.into_iter().filter_map(|network| network.name)).collect()
}

pub async fn containers(run: &str) -> Vec<String> {
    let docker = Docker::connect_with_defaults().unwrap();
    let filters = HashMap::from([("label", vec![format!("fencepost.run={run}")])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let found = docker.list_containers(Some(options)).await.unwrap();
    found.into_iter().flat_map(|container| container.names.unwrap_or_default()).collect()
}

/// Everything of the run, whatever its driver.
pub async fn of_run(driver: &str, run: &str) -> Vec<String> {
    let mut left = if driver == "docker" { of_docker_run(run).await } else { of_local_run(run) };
    left.extend(folders(run).iter().map(|folder| folder.display().to_string()));
    left
}

/// Whether a process runs that has this word in its command line.
pub fn is_running(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|command| command.contains(word))
    })
}
