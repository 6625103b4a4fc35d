//! What was there when a lock broke: the data folders of the servers, packed into the folder of the run.

use super::context::RunContext;
use crate::run::deployment::nodes_of;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencepost_cluster::{Cluster, DataCall, Node, PackedData};
use fencepost_history::NodeKind;
use fencepost_history::run::RunFolder;
use futures_util::future::join_all;
use serde_json::json;

/// Keeps each server's data, if the observer wants them. Gives a sentence for each that could not be kept.
pub(super) async fn keep(context: &RunContext<'_>, cluster: &Cluster) -> Vec<String> {
    let (observer, folder) = (context.observer.clone(), context.folder.clone());
    let wanted = tokio::task::spawn_blocking(move || observer.keeps_data(&folder)).await;
    if !wanted.unwrap_or(false) {
        return Vec::new();
    }
    let servers = nodes_of(cluster, NodeKind::Server);
    let kept = join_all(servers.iter().map(|server| keep_of(server.as_ref(), context.folder))).await;
    let failures = servers.iter().zip(kept).filter_map(|(server, kept)| {
        let why = match kept {
            Ok(0) => return None,
            Ok(left_out) => format!("{left_out} large files were left out"),
            Err(error) => format!("they are not kept: {error:#}"),
        };
        Some(format!("the data of {}: {why}", server.name()))
    });
    failures.collect()
}

/// Gives how many files were left out.
async fn keep_of(server: &dyn Node, folder: &RunFolder) -> Result<usize> {
    let packed = server.tool("data", json!(DataCall { folder: "{data}".into() })).await?;
    let PackedData { archive, left_out } = serde_json::from_value(packed)?;
    let archive = STANDARD.decode(archive).context("what its agent packed is no base64")?;
    let name = format!("{}/{}.tar.gz", RunFolder::DATA, server.name());
    folder.write(&name, &archive)?;
    Ok(left_out)
}
