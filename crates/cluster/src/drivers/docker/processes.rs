//! Containers that are no nodes.

use super::engine::{Engine, failed};
use crate::ClusterError;
use bollard::query_parameters::InspectContainerOptions;

/// The first process's number of a container, on this machine. Errors: no engine, or not running here.
pub async fn first_process_in(container: &str) -> Result<i32, ClusterError> {
    let engine = Engine::connect().await?;
    let failed = failed(format!("find the container {container}"));
    let found = engine.docker.inspect_container(container, None::<InspectContainerOptions>).await;
    let found = found.map_err(failed)?;
    let pid = found.state.and_then(|state| i32::try_from(state.pid?).ok()).unwrap_or_default();
    if pid < 1 {
        return Err(ClusterError::new(format!("the container {container} does not run")));
    }
    // A process of this machine may have the number that one of another has there.
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    match found.id.is_some_and(|id| groups.contains(&id)) {
        true => Ok(pid),
        false => Err(ClusterError::new(format!("the container {container} does not run on this machine"))),
    }
}
