//! Notices what becomes of the nodes of a run: an agent that is gone, or a machine that gives it no time.

use crate::run::recorder::Recorder;
use crate::stop::Stop;
use crate::watch::node_log::{LOG_DELAY, as_last_rules};
use fencepost_cluster::Node;
use fencepost_history::{Kind, STALLED, Stalled};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

/// Shorter stalls than this part of the TTL change nothing.
const PART_OF_TTL: u32 = 20;

/// As long as any part of a stall of which more is to come.
const LEAST_MAX: Duration = Duration::from_secs(1);

/// Ends the run once one of these nodes is gone, whatever its clients saw. `logs` is the folder of the nodes'
/// logs. To be dropped before the nodes are taken down.
pub(crate) fn end_without_nodes(nodes: &[Arc<dyn Node>], logs: &Path, stop: &Arc<Stop>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    for node in nodes {
        let (node, logs, stop) = (node.clone(), logs.to_owned(), stop.clone());
        watches.spawn(async move {
            node.gone().await;
            // Why may be known a moment later.
            tokio::time::sleep(LOG_DELAY).await;
            let what = "its agent ended, which nothing in this run does: it was killed, or the machine ran out of memory";
            stop.fail(as_last_rules(&format!("the node {} is gone: {what}", node.name()), &logs, node.name()));
        });
    }
    watches
}

/// Records when the machine gave one of these nodes hardly any time: a part of a TTL (that of the run's
/// locks) that no fault took from it.
pub(crate) fn record_stalls(nodes: &[Arc<dyn Node>], recorder: &Arc<Recorder>, ttl: Duration) -> JoinSet<()> {
    let least = (ttl / PART_OF_TTL).min(LEAST_MAX);
    let mut watches = JoinSet::new();
    for node in nodes {
        let (node, mut stalls, recorder) = (node.name().to_owned(), node.stalls(), recorder.clone());
        watches.spawn(async move {
            loop {
                match stalls.recv().await {
                    Ok(length) if length >= least => {
                        let for_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
                        let stalled = Stalled { node: node.clone(), for_ms };
                        recorder.nemesis(Kind::Info, STALLED, json!(stalled), None);
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
    }
    watches
}
