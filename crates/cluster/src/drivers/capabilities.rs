//! What a driver's nodes can do on this machine: one is started, tries everything, and is taken down again.

use crate::capability::Capability;
use crate::cluster_folder::PrivateFolder;
use crate::driver::{ClusterSpec, Driver};
use crate::hash::short_hash;
use crate::node::NodeSpec;
use crate::probe::ProbeResult;
use crate::{ClusterError, cache};
use fencepost_history::NodeKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What works. Tried once for each `key`, which names the program, the driver's engine and the kernel;
/// `fencepost doctor` tries again. Everything, where no node starts: the start that follows has the reason.
pub(super) async fn capabilities_of(driver: &dyn Driver, key: &str) -> Vec<Capability> {
    match try_unless_known(driver, key).await {
        Ok(found) => found.into_iter().filter(|it| it.reason.is_none()).map(|it| it.capability).collect(),
        Err(error) => {
            log::debug!("cannot find out what nodes can do: {error}");
            Capability::ALL.to_vec()
        }
    }
}

/// What was found before, else now. The error is why no node starts.
pub(super) async fn try_unless_known(
    driver: &dyn Driver,
    key: &str,
) -> Result<Vec<ProbeResult>, ClusterError> {
    match remembered(driver, key) {
        Some(found) => Ok(found),
        None => try_afresh(driver, key).await,
    }
}

pub(crate) async fn try_afresh(driver: &dyn Driver, key: &str) -> Result<Vec<ProbeResult>, ClusterError> {
    let found = in_a_node(driver).await.inspect_err(|_| forget(driver, key))?;
    let memory = memory(driver, key)?;
    // What cannot be remembered is tried again the next time.
    let folder = memory.parent().unwrap_or(Path::new(""));
    let _ = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&memory, serde_json::to_vec(&found).unwrap_or_default()));
    Ok(found)
}

fn remembered(driver: &dyn Driver, key: &str) -> Option<Vec<ProbeResult>> {
    serde_json::from_slice(&std::fs::read(memory(driver, key).ok()?).ok()?).ok()
}

/// An engine that started nodes once may no longer do so: the next look tries again.
pub(super) fn forget(driver: &dyn Driver, key: &str) {
    if let Ok(memory) = memory(driver, key) {
        let _ = std::fs::remove_file(memory);
    }
}

fn memory(driver: &dyn Driver, key: &str) -> Result<PathBuf, ClusterError> {
    let name = short_hash(key.as_bytes());
    Ok(cache::folder()?.join("probes").join(format!("{}-{name}.json", driver.name())))
}

async fn in_a_node(driver: &dyn Driver) -> Result<Vec<ProbeResult>, ClusterError> {
    let run = ClusterSpec::own_name("probe");
    let logs = PrivateFolder::create("probe-logs")?;
    let node = |may_mount| NodeSpec {
        name: "probe".to_owned(),
        kind: NodeKind::Client,
        image: "client",
        may_mount,
        environment: None,
        limits: None,
        writes_hosts: false,
    };
    let spec = |may_mount| ClusterSpec {
        run: run.clone(),
        nodes: vec![node(may_mount)],
        logs: logs.path().to_owned(),
    };
    let cluster = match driver.start(&spec(true)).await {
        Ok(cluster) => Ok(cluster),
        // Perhaps it is only the right to mount that cannot be given here.
        Err(_) => driver.start(&spec(false)).await,
    };
    let probed = match &cluster {
        Ok(cluster) => cluster.nodes[0].exec(&["fencepost", "probe"], Duration::from_secs(20)).await,
        Err(error) => Err(ClusterError::new(error.0.clone())),
    };
    if let Ok(cluster) = cluster {
        cluster.stop().await?;
    }
    let output = probed?;
    serde_json::from_str(&output.stdout).map_err(|_| {
        ClusterError::new(format!(
            "a node that was to try everything said {:?} {:?}",
            output.stdout, output.stderr
        ))
    })
}
