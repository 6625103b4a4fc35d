//! The phases of a run: faults; healing, after which the lock must be free; closing reads.

use crate::clock_watch::ClockWatch;
use crate::deployment::Deployment;
use crate::injection::Injection;
use crate::node_log::as_last_rule;
use crate::observer::{Progress, RunObserver};
use crate::prepared_fault::prepare;
use crate::processes::{ProcessContext, TimeLimits, closing_reads, run_process};
use crate::recorder::Recorder;
use crate::run_nodes::run_nodes;
use crate::script_player::{DirectedScript, OnEvent, ScriptOutcome, ScriptPlayer};
use crate::server_log::ServerLog;
use crate::server_watch::ServerWatch;
use crate::stop::{Stop, StopReason};
use crate::storage_log;
use crate::topology::storage_names;
use crate::validation::RunSpec;
use anyhow::{Result, bail};
use fencepost_history::run::RunFolder;
use fencepost_history::{
    Kind, LOCK, NEMESES, NODES, PHASE, RunPhase, SERVERS, STORAGE, STORAGE_IS_REGISTER, f,
};
use fencepost_nemesis::Trigger;
use fencepost_workloads::key_name;
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long the processes go on without faults, in TTLs: in the first TTL those locks expire whose holders
/// died or whose release was lost; in the second, the lock must be granted again.
const LIVENESS_TTLS: u32 = 2;

/// How long a brief run goes on after its last fault is over, in TTLs: what was held back arrives, and leases
/// end that were still running, half a TTL late on some servers.
const AFTERMATH_TTLS: f64 = 1.5;

const READY: Duration = Duration::from_secs(15);

const PROGRESS: Duration = Duration::from_millis(200);

pub(crate) struct Run<'a> {
    pub spec: &'a RunSpec,
    pub folder: &'a RunFolder,
    pub stop: &'a Arc<Stop>,
    pub script: Option<&'a DirectedScript>,
    pub observer: Arc<dyn RunObserver>,
}

/// The result of a run, besides its folder.
pub struct RunOutcome {
    /// Faults that were not healed, nodes that were not removed: a sentence each. No part of the verdict.
    pub cleanup_errors: Vec<String>,
    pub script: Option<ScriptOutcome>,
}

/// Goes through all phases.
pub(crate) async fn all(
    run: &Run<'_>,
    deployment: &Deployment,
    recorder: &Arc<Recorder>,
) -> Result<RunOutcome> {
    let (spec, stop) = (run.spec, run.stop);
    let context = Arc::new(ProcessContext::new(recorder.clone(), time_limits(run), spec.options.concurrency));
    recorder.nemesis(Kind::Info, LOCK, json!(deployment.lock), None);
    let servers = record_settings(spec, recorder);
    let mut player = run.script.map(|script| arm(run, script, &context));
    // Counted from the first event on: processes begin after this.
    let enough = acquired_enough(spec, recorder);
    phase(recorder, RunPhase::Main);
    let moved = fencepost_nemesis::moved_clocks(&spec.plan, &spec.topology());
    let clocks = ClockWatch::watch(moved, deployment.context.clone(), recorder.clone(), run.folder.clocks())?;
    let unreadable = spec.lock.service.unreadable_data;
    let log = ServerLog { logs: run.folder.logs(), unreadable, recorder: recorder.clone() };
    let mut watch = {
        let storages = storage_names(&spec.options, spec.lock, spec.workload);
        // A server that exists without the run has no process here that could be watched.
        let servers = if spec.options.existing.are_used() { Vec::new() } else { servers };
        ServerWatch::new(servers, storages, deployment.context.clone(), log.clone(), stop.clone())
    };
    let ready = prepare(&spec.plan)?;
    let injection = Injection::begin(spec, ready, deployment.context.clone(), log);
    let mut processes = begin(run, deployment, &context, player.as_mut());
    tokio::select! {
        () = tokio::time::sleep(spec.options.time_limit.0) => {}
        () = enough => {}
        () = all_shown(spec, &injection) => {}
        () = stop.pulled() => {}
        () = all_played(player.as_mut()) => {}
        () = watch.watch(|server| injection.takes_down(server)) => {}
        () = report_progress(run.observer.as_ref(), recorder, &injection, spec.options.time_limit.0) => {}
    }
    let unhealed = heal(run, deployment, recorder, injection).await;
    // A directed run ends where its script ends.
    if !spec.nemeses.is_empty() && player.is_none() {
        liveness(run, recorder, &mut watch).await;
    }
    context.closing.set();
    await_ends(&mut processes, stop).await;
    let unwritten = match clocks {
        Some(clocks) => clocks.stop().await,
        None => None,
    };
    let script = match player {
        Some(player) => Some(player.close().await),
        None => None,
    };
    if let Some(sentence) = silent_client(run, deployment).await {
        bail!("{sentence}");
    }
    closing(run, deployment, &context, recorder).await;
    watch.look(|_| false).await;
    let cleanup_errors = unhealed.into_iter().chain(unwritten).collect();
    Ok(RunOutcome { cleanup_errors, script })
}

/// Heals all faults, and waits for the service. Gives one sentence for each fault that could not be healed.
async fn heal(
    run: &Run<'_>,
    deployment: &Deployment,
    recorder: &Recorder,
    injection: Injection,
) -> Vec<String> {
    phase(recorder, RunPhase::Heal);
    let unhealed = injection.heal_all().await;
    if !run.spec.nemeses.is_empty() {
        await_ready(run, deployment).await;
    }
    unhealed
}

async fn liveness(run: &Run<'_>, recorder: &Recorder, watch: &mut ServerWatch) {
    phase(recorder, RunPhase::Liveness);
    let granted = granted_again(run.spec, recorder);
    tokio::select! {
        () = tokio::time::sleep(LIVENESS_TTLS * run.spec.options.ttl.0) => {}
        () = granted => {}
        () = run.stop.pulled() => {}
        () = watch.watch(|_| false) => {}
    }
}

/// Processes end what they are in the middle of. After Ctrl-C or a failure nothing is worth that wait.
async fn await_ends(processes: &mut JoinSet<()>, stop: &Stop) {
    tokio::select! {
        () = async { while processes.join_next().await.is_some() {} } => {}
        () = only_if_failed(stop) => {}
    }
    processes.abort_all();
}

/// Reads every key once more, and records the storage's log.
async fn closing(run: &Run<'_>, deployment: &Deployment, context: &Arc<ProcessContext>, recorder: &Recorder) {
    let spec = run.spec;
    phase(recorder, RunPhase::Closing);
    tokio::select! {
        () = closing_reads(context, spec.options.keys, &deployment.clients, spec.workload.uses_storage()) => {}
        () = only_if_failed(run.stop) => {}
    }
    if has_one_storage(spec) {
        storage_log::record(deployment.context.as_ref(), recorder, &deployment.key_prefix).await;
    }
}

/// A sentence about a client that answers no more, although no fault keeps it from that.
async fn silent_client(run: &Run<'_>, deployment: &Deployment) -> Option<String> {
    if !run.spec.plan.faults.is_empty() || run.script.is_some() {
        return None;
    }
    let mut clients = deployment.clients.iter();
    let (client, unanswered) = clients.find_map(|client| Some((client.name(), client.unanswered()?)))?;
    let sentence = format!("client {client} {unanswered}");
    Some(as_last_rule(&sentence, &run.folder.logs(), client).await)
}

fn record_settings(spec: &RunSpec, recorder: &Recorder) -> Vec<String> {
    let nemeses: Vec<&str> = spec.nemeses.iter().map(|nemesis| nemesis.name()).collect();
    recorder.nemesis(Kind::Info, NEMESES, json!(nemeses), None);
    let servers = spec.topology().servers;
    recorder.nemesis(Kind::Info, SERVERS, json!(servers), None);
    recorder.nemesis(Kind::Info, NODES, json!(run_nodes(spec)), None);
    // One storage is one register a key; replicas and data inside the lock service promise less.
    if has_one_storage(spec) {
        recorder.nemesis(Kind::Info, STORAGE, json!(STORAGE_IS_REGISTER), None);
    }
    servers
}

fn has_one_storage(spec: &RunSpec) -> bool {
    storage_names(&spec.options, spec.lock, spec.workload).len() == 1
}

fn arm(run: &Run, script: &DirectedScript, context: &ProcessContext) -> ScriptPlayer {
    let observer = run.observer.clone();
    let on_event: OnEvent = Arc::new(move |time, sentence| observer.narrated(time, sentence));
    ScriptPlayer::arm(script, context, &on_event)
}

/// Waits until the service is ready after the healing, 15 s at most. Later, its clients show what it can do.
async fn await_ready(run: &Run<'_>, deployment: &Deployment) {
    let servers = run.spec.topology().servers;
    let all = servers.iter().map(|server| deployment.context.await_serving(server));
    tokio::select! {
        _ = tokio::time::timeout(READY, join_all(all)) => {}
        () = run.stop.pulled() => {}
    }
}

fn phase(recorder: &Recorder, phase: RunPhase) {
    recorder.nemesis(Kind::Info, PHASE, json!(phase.name()), None);
}

fn time_limits(run: &Run) -> TimeLimits {
    let Run { spec, script, .. } = run;
    let bound = script.and_then(|script| script.free_again);
    TimeLimits {
        ttl: spec.options.ttl.0,
        acquire: spec.options.acquire_timeout.0,
        free_again: bound.unwrap_or(2 * spec.options.ttl.0 + Duration::from_secs(5))
            + spec.lock.capabilities(&spec.options.lock_options).lock_delay,
        patience: 10 * spec.options.ttl.0 + Duration::from_secs(5),
    }
}

/// Returns when as many acquires have succeeded as the spec asks for; never where it sets no such end.
fn acquired_enough(spec: &RunSpec, recorder: &Recorder) -> impl Future<Output = ()> + use<> {
    let acquires = |times| Trigger { times, ..Trigger::of(f::ACQUIRE) };
    let reached = spec.options.acquisitions.map(|count| recorder.await_event(acquires(count)));
    async {
        match reached {
            Some(reached) => drop(reached.await),
            None => std::future::pending().await,
        }
    }
}

/// Returns when the faults of a brief run, and their consequences, are over; never in any other run.
async fn all_shown(spec: &RunSpec, injection: &Injection) {
    if !spec.options.brief || spec.plan.faults.is_empty() {
        std::future::pending::<()>().await;
    }
    injection.all_over().await;
    tokio::time::sleep(spec.options.ttl.0.mul_f64(AFTERMATH_TTLS)).await;
}

/// Returns when each lock was granted once more, as `progress` needs; never where the phase is to last.
fn granted_again(spec: &RunSpec, recorder: &Recorder) -> impl Future<Output = ()> + use<> {
    let of = |number| Trigger { key: Some(key_name(number)), ..Trigger::of(f::ACQUIRE) };
    let is_brief = spec.options.brief;
    let keys = if is_brief { spec.options.keys } else { 0 };
    let grants: Vec<_> = (0..keys).map(|number| recorder.await_event(of(number))).collect();
    async move {
        join_all(grants).await;
        if !is_brief {
            std::future::pending::<()>().await;
        }
    }
}

async fn all_played(player: Option<&mut ScriptPlayer>) {
    match player {
        Some(player) => player.all_played().await,
        None => std::future::pending().await,
    }
}

async fn only_if_failed(stop: &Stop) {
    stop.pulled().await;
    if stop.reason() == Some(&StopReason::Violation) {
        std::future::pending::<()>().await;
    }
}

async fn report_progress(
    observer: &dyn RunObserver,
    recorder: &Recorder,
    injection: &Injection,
    limit: Duration,
) {
    let begun = recorder.elapsed();
    loop {
        tokio::time::sleep(PROGRESS).await;
        let tally = recorder.tally();
        observer.progress(&Progress {
            elapsed: recorder.elapsed() - begun,
            limit,
            operations: tally.operations,
            acquisitions: tally.acquisitions,
            violations: tally.violations,
            faults: injection.in_force(),
        });
    }
}

/// Begins the script of a directed run, or else the processes that follow the workload.
fn begin(
    run: &Run,
    deployment: &Deployment,
    context: &Arc<ProcessContext>,
    player: Option<&mut ScriptPlayer>,
) -> JoinSet<()> {
    let mut processes = JoinSet::new();
    if let Some(player) = player {
        player.begin(context, |client| deployment.client(client));
        return processes;
    }
    let spec = run.spec;
    for slot in 0..spec.options.concurrency {
        let client = deployment.clients[slot % deployment.clients.len()].clone();
        let (workload, settings, seed) = (spec.workload, spec.workload_settings(slot), spec.seed);
        let new_script =
            move |process| workload.script(&settings, process, seed.stream(&format!("process-{process}")));
        processes.spawn(run_process(context.clone(), client, slot, new_script));
    }
    processes
}
