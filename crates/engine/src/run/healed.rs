//! After the faults: locks must be free again, and every key is read once more.

use super::context::{Playing, phase};
use crate::run::processes::closing_reads;
use crate::run::recorder::Recorder;
use crate::run::script_player::ScriptOutcome;
use crate::stop::{Stop, StopReason};
use crate::watch::node_log::as_last_rule;
use crate::watch::storage_log;
use anyhow::{Result, bail};
use fencepost_history::{RunPhase, f};
use fencepost_nemesis::Trigger;
use fencepost_workloads::key_name;
use futures_util::future::join_all;
use std::time::Duration;

/// Liveness phase, in TTLs: in the first, dead holders' locks expire; in the second, grants must come.
const LIVENESS_TTLS: u32 = 2;

const READY: Duration = Duration::from_secs(15);

/// The result of a run, besides its folder.
pub struct RunOutcome {
    /// Faults that were not healed, nodes that were not removed: a sentence each. No part of the verdict.
    pub cleanup_errors: Vec<String>,
    pub script: Option<ScriptOutcome>,
}

/// A run in which no fault is in force any more.
pub(crate) struct Healed<'a> {
    playing: Playing<'a>,
    unhealed: Vec<String>,
}

impl<'a> Healed<'a> {
    /// Waits 15 s at most until the service is ready after the healing; then its clients show that.
    pub(super) async fn await_ready(playing: Playing<'a>, unhealed: Vec<String>) -> Healed<'a> {
        if !playing.spec.nemeses.is_empty() {
            let context = &playing.deployment.context;
            let all = playing.spec.topology.servers.iter().map(|server| context.await_serving(server));
            tokio::select! {
                _ = tokio::time::timeout(READY, join_all(all)) => {}
                () = playing.context.stop.pulled() => {}
            }
        }
        Healed { playing, unhealed }
    }

    /// Lets locks be granted again, ends processes, reads every key. Errors: an unhindered client is silent.
    pub(crate) async fn close(self) -> Result<RunOutcome> {
        let Healed { mut playing, unhealed } = self;
        // A directed run ends where its script ends.
        if !playing.spec.nemeses.is_empty() && playing.player.is_none() {
            liveness(&mut playing).await;
        }
        end_processes(&mut playing).await;
        let unwritten = match playing.clocks.take() {
            Some(clocks) => clocks.stop().await,
            None => None,
        };
        let is_directed = playing.player.is_some();
        let script = match playing.player.take() {
            Some(player) => Some(player.close().await),
            None => None,
        };
        if !is_directed && let Some(sentence) = silent_client(&playing).await {
            bail!("{sentence}");
        }
        closing(&playing).await;
        playing.servers.look(|_| false).await;
        let cleanup_errors = unhealed.into_iter().chain(unwritten).collect();
        Ok(RunOutcome { cleanup_errors, script })
    }
}

async fn liveness(playing: &mut Playing<'_>) {
    let Playing { spec, context, recorder, servers, .. } = playing;
    phase(recorder, RunPhase::Liveness);
    let keys = if spec.options.brief { spec.options.keys } else { 0 };
    let granted = granted_again(keys, recorder);
    tokio::select! {
        () = tokio::time::sleep(LIVENESS_TTLS * spec.options.ttl.0) => {}
        () = granted => {}
        () = context.stop.pulled() => {}
        () = servers.watch(|_| false) => {}
    }
}

/// Returns when each of so many locks was granted once more, as `progress` needs; never with none.
fn granted_again(keys: usize, recorder: &Recorder) -> impl Future<Output = ()> + use<> {
    let of = |number| Trigger { key: Some(key_name(number)), ..Trigger::of(f::ACQUIRE) };
    let grants: Vec<_> = (0..keys).map(|number| recorder.await_event(of(number))).collect();
    async move {
        join_all(grants).await;
        if keys == 0 {
            std::future::pending::<()>().await;
        }
    }
}

/// Processes end what they are in the middle of. After Ctrl-C or a failure nothing is worth that wait.
async fn end_processes(playing: &mut Playing<'_>) {
    playing.process_context.closing.set();
    let processes = &mut playing.processes;
    tokio::select! {
        () = async { while processes.join_next().await.is_some() {} } => {}
        () = only_if_failed(playing.context.stop) => {}
    }
    processes.abort_all();
}

/// A sentence about a client that answers no more, although no fault keeps it from that.
async fn silent_client(playing: &Playing<'_>) -> Option<String> {
    if !playing.spec.plan.faults.is_empty() {
        return None;
    }
    let mut clients = playing.deployment.clients.iter();
    let (client, unanswered) = clients.find_map(|client| Some((client.name(), client.unanswered()?)))?;
    let sentence = format!("client {client} {unanswered}");
    Some(as_last_rule(&sentence, &playing.context.folder.logs(), client).await)
}

/// Reads every key once more, and records the storage's log.
async fn closing(playing: &Playing<'_>) {
    let Playing { spec, context, deployment, recorder, process_context, .. } = playing;
    let (keys, reads) = (spec.options.keys, spec.workload.uses_storage);
    phase(recorder, RunPhase::Closing);
    tokio::select! {
        () = closing_reads(process_context, keys, &deployment.clients, reads) => {}
        () = only_if_failed(context.stop) => {}
    }
    if spec.has_one_storage() {
        storage_log::record(deployment.context.as_ref(), recorder, &deployment.key_prefix).await;
    }
}

async fn only_if_failed(stop: &Stop) {
    stop.pulled().await;
    if stop.reason() == Some(&StopReason::Violation) {
        std::future::pending::<()>().await;
    }
}
