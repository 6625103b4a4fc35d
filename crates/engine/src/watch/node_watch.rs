//! Notices when a node's agent is gone: then the run has failed, whatever its clients saw.

use crate::stop::Stop;
use crate::watch::node_log::{LOG_DELAY, as_last_rules};
use fencepost_cluster::Node;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Watches nodes until it is dropped, which has to be before they are taken down.
pub(crate) struct NodeWatch {
    _watches: JoinSet<()>,
}

impl NodeWatch {
    /// Ends the run once one of these nodes is gone. `logs` is the folder of the nodes' logs.
    pub(crate) fn begin(nodes: &[Arc<dyn Node>], logs: &Path, stop: &Arc<Stop>) -> NodeWatch {
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
        NodeWatch { _watches: watches }
    }
}
