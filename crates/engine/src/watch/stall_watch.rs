//! Records when the machine gave a node hardly any time: a part of a TTL that no fault took from it.

use crate::run::recorder::Recorder;
use fencepost_cluster::Node;
use fencepost_history::{Kind, STALLED, Stalled};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

/// Shorter stalls than this part of the TTL change nothing.
const PART_OF_TTL: u32 = 20;

/// As long as any part of a stall of which more is to come.
const LEAST_MAX: Duration = Duration::from_secs(1);

pub(crate) struct StallWatch {
    _watches: JoinSet<()>,
}

impl StallWatch {
    /// Records the stalls of these nodes from now on. `ttl` is that of the run's locks.
    pub(crate) fn begin(nodes: &[Arc<dyn Node>], recorder: &Arc<Recorder>, ttl: Duration) -> StallWatch {
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
        StallWatch { _watches: watches }
    }
}
