//! Faults of servers without the run: a user's command injects and heals, and the look is from outside.

use crate::context::FaultContext;
use crate::existing_servers::{ExistingServers, HookAction};
use crate::fault::{FaultError, Observation, heal_each};
use fencepost_history::prose::{and, was};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

const EFFECT: Duration = Duration::from_secs(3);
const BACK: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// How long a hook that failed is left alone before it is called again.
const AGAIN: Duration = Duration::from_secs(4);

/// The servers among the targets of a fault that exist without the run, and what is done to them.
pub(crate) struct ByHook {
    action: HookAction,
    touched: Vec<String>,
}

impl ByHook {
    pub(crate) fn new(action: HookAction) -> ByHook {
        ByHook { action, touched: Vec::new() }
    }

    /// Has the fault injected. Gives what was observed of each; it is effective if one stopped answering.
    pub(crate) async fn inject(
        &mut self,
        servers: &[String],
        context: &FaultContext,
    ) -> Result<Observation, FaultError> {
        self.touched.extend(servers.iter().cloned());
        let injected = servers.iter().map(|server| inject(self.action, server, context));
        // To the end, each: a hook that is cut off may have done half of its work.
        let injected = join_all(injected).await.into_iter().collect::<Result<Vec<_>, FaultError>>()?;
        Ok(servers.iter().cloned().zip(injected).collect())
    }

    pub(crate) async fn heal(&self, context: &FaultContext) -> Result<Map<String, Value>, FaultError> {
        let undo = self.action.undo();
        heal_each(&self.touched, |server| async move {
            bring_back(context.existing(server)?, server, undo).await?;
            Ok(json!({"answers": true}))
        })
        .await
    }
}

async fn inject(
    action: HookAction,
    server: &str,
    context: &FaultContext,
) -> Result<(Value, bool), FaultError> {
    let existing = context.existing(server)?;
    let answered_before = existing.answers(server).await;
    let mut open = existing.connect(server).await.ok();
    existing.act(server, action).await?;
    let deadline = Instant::now() + EFFECT;
    // A server that is killed may be back before it is asked; its connections are not.
    let (mut answers, mut closed) = (true, false);
    while Instant::now() < deadline && answers && !closed {
        closed = action == HookAction::Kill && is_closed(open.as_mut()).await;
        answers = existing.answers(server).await;
    }
    let seen =
        json!({"by": "hook", "answered_before": answered_before, "answers": answers, "closed": closed});
    Ok((seen, answered_before && (!answers || closed)))
}

async fn is_closed(open: Option<&mut TcpStream>) -> bool {
    let Some(open) = open else { return false };
    let mut bytes = [0; 512];
    matches!(tokio::time::timeout(POLL, open.read(&mut bytes)).await, Ok(Ok(0) | Err(_)))
}

async fn bring_back(
    existing: &dyn ExistingServers,
    server: &str,
    undo: HookAction,
) -> Result<(), FaultError> {
    if let Err(error) = existing.act(server, undo).await {
        // It is called again; what fails at once would be called a hundred times.
        tokio::time::sleep(AGAIN).await;
        return Err(error.into());
    }
    let deadline = Instant::now() + BACK;
    while !existing.answers(server).await {
        if Instant::now() > deadline {
            let (undone, back_s) = (undo.name(), BACK.as_secs());
            return Err(FaultError::Other(format!(
                "{server} does not answer within {back_s} s after the server hook was called with {undone}"
            )));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// What was done to these targets: some by signals, and some, as observed, by a hook.
pub(crate) fn sentence(
    observed: &Map<String, Value>,
    targets: &[String],
    by_hook: &str,
    by_signal: &str,
) -> String {
    let (hooked, own): (Vec<String>, Vec<String>) = targets
        .iter()
        .cloned()
        .partition(|target| observed.get(target).is_some_and(|seen| seen["by"] == "hook"));
    let clause = |targets: &[String], done: &str| {
        (!targets.is_empty()).then(|| format!("{} {} {done}", and(targets), was(targets)))
    };
    let clauses = [clause(&own, by_signal), clause(&hooked, &format!("{by_hook} by the server hook"))];
    clauses.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use fencepost_cluster::ClusterError;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A server whose hook fails at once.
    #[derive(Default)]
    struct Broken(AtomicU32);

    #[async_trait]
    impl ExistingServers for Broken {
        async fn act(&self, _: &str, _: HookAction) -> Result<(), ClusterError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(ClusterError::new("failed (exit status: 1)"))
        }

        async fn answers(&self, _: &str) -> bool {
            false
        }

        async fn connect(&self, _: &str) -> std::io::Result<TcpStream> {
            Err(std::io::ErrorKind::ConnectionRefused.into())
        }
    }

    /// For 20 s, as a healing that fails is tried.
    #[tokio::test(start_paused = true)]
    async fn a_hook_that_fails_is_called_a_few_times_only() {
        let (broken, begun) = (Broken::default(), Instant::now());
        while Instant::now() < begun + Duration::from_secs(20) {
            bring_back(&broken, "n1", HookAction::Continue).await.unwrap_err();
        }
        assert_eq!(broken.0.load(Ordering::Relaxed), 5);
    }
}
