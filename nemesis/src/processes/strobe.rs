//! Processes that are stopped and woken again and again.

use fencepost_cluster::{ClusterError, Node};
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

#[derive(Clone, Copy)]
pub(crate) struct Strobe {
    pub stop_ms: u64,
    pub run_ms: u64,
}

/// A strobe at work. Dropping it ends it; the process may then be left stopped.
pub(crate) struct Strobing {
    end: watch::Sender<bool>,
    /// Each target's name, number of stops, and milliseconds stopped.
    tasks: JoinSet<(String, u64, u64)>,
}

impl Strobing {
    pub fn begin(strobe: Strobe, targets: Vec<(String, i32, Arc<dyn Node>)>) -> Strobing {
        let (end, ends) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (target, pid, node) in targets {
            let ends = ends.clone();
            tasks.spawn(async move {
                let (stops, stopped) = flicker(strobe, node.as_ref(), pid, ends).await;
                (target, stops, stopped.as_millis() as u64)
            });
        }
        Strobing { end, tasks }
    }

    /// Ends it, and gives what each target went through.
    pub async fn end(mut self) -> Map<String, Value> {
        self.end.send_replace(true);
        let mut stops_of = Map::new();
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok((target, stops, stopped_ms)) = ended {
                stops_of.insert(target, json!({"stops": stops, "stopped_ms": stopped_ms}));
            }
        }
        stops_of
    }
}

/// Begins with a process that is stopped already. Gives the number of stops and their time.
async fn flicker(
    strobe: Strobe,
    node: &dyn Node,
    pid: i32,
    mut ends: watch::Receiver<bool>,
) -> (u64, Duration) {
    let (mut stops, mut stopped) = (1, Duration::ZERO);
    loop {
        let since = Instant::now();
        let over = ends_within(&mut ends, strobe.stop_ms).await;
        let woken = node.signal_tree(pid, Signal::SIGCONT as i32).await;
        stopped += since.elapsed();
        // A process that is gone needs no waking: the fault that killed it starts it again.
        if over || !matches!(woken, Ok(true)) || ends_within(&mut ends, strobe.run_ms).await {
            return (stops, stopped);
        }
        if stop(node, pid).await.is_err() {
            return (stops, stopped);
        }
        stops += 1;
    }
}

async fn ends_within(ends: &mut watch::Receiver<bool>, time_ms: u64) -> bool {
    tokio::time::timeout(Duration::from_millis(time_ms), ends.wait_for(|end| *end)).await.is_ok()
}

pub(crate) async fn stop(node: &dyn Node, pid: i32) -> Result<(), ClusterError> {
    match node.signal_tree(pid, Signal::SIGSTOP as i32).await? {
        true => Ok(()),
        false => {
            Err(ClusterError::new(format!("{}: process {pid} ended before it could be stopped", node.name())))
        }
    }
}
