//! While processes work, and faults come and go.

use super::context::{Playing, RunContext, phase};
use super::healed::Healed;
use crate::run::deployment::Deployment;
use crate::run::injection::Injection;
use crate::run::observer::{Progress, RunObserver};
use crate::run::prepared_fault::prepare;
use crate::run::processes::{Cancels, ProcessContext, TimeLimits, follow_workload};
use crate::run::recorder::Recorder;
use crate::run::run_nodes::run_nodes;
use crate::run::script_player::{DirectedScript, ScriptPlayer};
use crate::settings::validation::RunSpec;
use crate::watch::clock_watch::ClockWatch;
use crate::watch::server_log::ServerLog;
use crate::watch::server_watch::ServerWatch;
use anyhow::Result;
use fencepost_history::{Kind, LOCK, NEMESES, NODES, RunPhase, SERVERS, STORAGE, STORAGE_IS_REGISTER};
use serde_json::json;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a brief run goes on after its last fault, in TTLs: late messages arrive, leases end.
const AFTERMATH_TTLS: f64 = 1.5;

const PROGRESS: Duration = Duration::from_millis(200);

/// A run with faults to come or in force. Healing consumes it.
pub(crate) struct Running<'a> {
    playing: Playing<'a>,
    injection: Injection,
    /// As many acquires have succeeded as were asked for.
    enough: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<'a> Running<'a> {
    /// Begins the processes, or else the script. Errors: a fault of the plan cannot be made ready; a file.
    pub(crate) fn begin(
        spec: &'a RunSpec,
        context: &RunContext<'a>,
        deployment: &'a Deployment,
        recorder: &Arc<Recorder>,
        script: Option<&DirectedScript>,
    ) -> Result<Running<'a>> {
        let times = time_limits(spec, script);
        record_settings(spec, deployment, recorder);
        let mut process_context = ProcessContext::new(recorder.clone(), times, spec.options.concurrency);
        process_context.permits = spec.options.permits;
        process_context.cancels = Cancels { of: spec.options.cancel.clone(), seed: spec.seed };
        let process_context = Arc::new(process_context);
        let mut player =
            script.map(|script| ScriptPlayer::arm(script, &process_context, context.observer.clone()));
        // Counted from the first event on: processes begin after this.
        let enough = Box::pin(recorder.acquired(spec.options.acquisitions));
        phase(recorder, RunPhase::Main);
        let faults = deployment.context.clone();
        let moved = fencepost_nemesis::moved_clocks(&spec.plan, &spec.topology);
        let clocks = ClockWatch::watch(moved, faults.clone(), recorder.clone(), context.folder.clocks())?;
        let unreadable = spec.lock.service.unreadable_data;
        let log = ServerLog { logs: context.folder.logs(), unreadable, recorder: recorder.clone() };
        // A server that exists without the run has no process here that could be watched.
        let watched = match spec.options.existing.are_used() {
            true => Vec::new(),
            false => spec.topology.servers.clone(),
        };
        let servers = ServerWatch::new(
            watched,
            spec.storages.clone(),
            faults.clone(),
            log.clone(),
            context.stop.clone(),
        );
        let injection = Injection::begin(spec, prepare(&spec.plan)?, faults, log);
        let processes = match &mut player {
            Some(player) => {
                player.begin(&process_context, |client| deployment.client(client));
                JoinSet::new()
            }
            None => follow_workload(spec, &deployment.clients, &process_context),
        };
        let (context, recorder) = (context.clone(), recorder.clone());
        let playing = Playing {
            spec,
            context,
            deployment,
            recorder,
            process_context,
            processes,
            player,
            servers,
            clocks,
        };
        Ok(Running { playing, injection, enough })
    }

    /// Returns when the time is up, or nothing more is to be seen.
    pub(crate) async fn until_over(mut self) -> Self {
        let Running { playing, injection, enough } = &mut self;
        let Playing { spec, context, recorder, player, servers, .. } = playing;
        let (observer, time_limit) = (context.observer.as_ref(), spec.options.time_limit.0);
        tokio::select! {
            () = tokio::time::sleep(time_limit) => {}
            () = enough => {}
            () = all_shown(spec, injection) => {}
            () = context.stop.pulled() => {}
            () = all_played(player.as_mut()) => {}
            () = servers.watch(|server| injection.takes_down(server)) => {}
            () = report_progress(observer, recorder, injection, time_limit) => {}
        }
        self
    }

    /// Heals all faults, and waits for the service.
    pub(crate) async fn heal(self) -> Healed<'a> {
        phase(&self.playing.recorder, RunPhase::Heal);
        let unhealed = self.injection.heal_all().await;
        Healed::await_ready(self.playing, unhealed).await
    }
}

fn time_limits(spec: &RunSpec, script: Option<&DirectedScript>) -> TimeLimits {
    let bound = script.and_then(|script| script.free_again);
    TimeLimits {
        ttl: spec.options.ttl.0,
        acquire: spec.options.acquire_timeout.0,
        free_again: bound.unwrap_or(2 * spec.options.ttl.0 + Duration::from_secs(5))
            + spec.lock.capabilities(&spec.options.lock_options).lock_delay,
        patience: 10 * spec.options.ttl.0 + Duration::from_secs(5),
    }
}

fn record_settings(spec: &RunSpec, deployment: &Deployment, recorder: &Recorder) {
    let nemeses: Vec<&str> = spec.nemeses.iter().map(|nemesis| nemesis.name()).collect();
    let settings =
        [(LOCK, json!(deployment.lock)), (NEMESES, json!(nemeses)), (SERVERS, json!(spec.topology.servers))];
    let storage = spec.has_one_storage().then(|| (STORAGE, json!(STORAGE_IS_REGISTER)));
    for (name, value) in settings.into_iter().chain([(NODES, json!(run_nodes(spec)))]).chain(storage) {
        recorder.nemesis(Kind::Info, name, value, None);
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

async fn all_played(player: Option<&mut ScriptPlayer>) {
    match player {
        Some(player) => player.all_played().await,
        None => std::future::pending().await,
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
