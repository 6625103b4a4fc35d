//! The nodes of a run: programs start in them, the run goes on, and they are taken down.

use super::context::RunContext;
use super::healed::RunOutcome;
use super::kept_data;
use super::running::Running;
use crate::existing::Existing;
use crate::run::deployment::{self, Deployment};
use crate::run::recorder::{Placement, Recorder};
use crate::run::script_player::DirectedScript;
use crate::settings::validation::RunSpec;
use crate::standing::{LeftNodes, StandingLogs, StandingServers};
use crate::stop::{Stop, StopReason};
use crate::watch::client_monitor::ClientMonitor;
use crate::watch::node_watch::{end_without_nodes, record_stalls};
use anyhow::{Result, bail};
use fencepost_cluster::{CleanUp, Cluster, Driver};
use fencepost_history::run::{COMPRESS_ABOVE_BYTES, RunFile, RunFolder, compress_history};
use fencepost_history::{CUT_OFF, Kind, Writer};
use fencepost_nemesis::{FaultContext, PlannedFault};
use serde_json::json;
use std::sync::{Arc, OnceLock};

pub(super) struct RunNodes {
    pub(super) spec: RunSpec,
    pub(super) file: RunFile,
    pub(super) driver: Box<dyn Driver>,
    pub(super) cluster: Cluster,
    pub(super) existing: Option<Arc<Existing>>,
    pub(super) clean_up: CleanUp,
    /// What faults act on, and the versions of the servers, once these serve.
    pub(super) serving: OnceLock<(Arc<FaultContext>, Vec<String>)>,
}

impl RunNodes {
    /// Starts the programs, and goes through the run. Errors: as [`super::run`]; the nodes stand still.
    pub(super) async fn go_through(
        &self,
        context: &RunContext<'_>,
        script: Option<&DirectedScript>,
    ) -> Result<RunOutcome> {
        let RunNodes { spec, cluster, existing, .. } = self;
        let (stop, logs) = (context.stop, context.folder.logs());
        let monitor =
            Arc::new(ClientMonitor::new(stop.clone(), clients_that_may_be_killed(spec), logs.clone()));
        let _watches = end_without_nodes(&cluster.nodes, &logs, stop);
        let starting = deployment::start(spec, cluster, &logs, monitor.clone(), existing.as_ref(), stop);
        let deployment = stop.unless_pulled(starting).await?;
        let _ = self.serving.set((deployment.context.clone(), deployment.versions.clone()));
        monitor.watch_all(&deployment.clients, cluster);
        self.describe(context, &deployment)?;
        let placement = Placement { slots: spec.options.concurrency, clients: spec.options.clients };
        let history = Writer::create(&context.folder.history())?;
        let recorder = Arc::new(Recorder::new(history, placement, stop.clone(), spec.options.fail_fast));
        monitor.record_to(recorder.clone());
        let stalls = record_stalls(&cluster.nodes, &recorder, spec.options.ttl.0);
        let outcome = match Running::begin(spec, context, &deployment, &recorder, script) {
            Ok(running) => running.until_over().await.heal().await.close().await,
            Err(error) => Err(error),
        };
        drop(stalls);
        monitor.await_inquiries().await;
        monitor.expect_ends();
        let outcome = match stop.reason() {
            None | Some(StopReason::Violation) => outcome,
            Some(_) => Err(stop.as_error()),
        };
        if let Err(error) = &outcome {
            recorder.nemesis(Kind::Info, CUT_OFF, json!(error.to_string()), None);
        }
        outcome
    }

    /// Writes what is known of the servers and the lock, now that they run.
    fn describe(&self, context: &RunContext<'_>, deployment: &Deployment) -> Result<()> {
        let mut file = self.file.clone();
        if self.existing.is_none() {
            file.servers.clone_from(&deployment.versions);
        }
        file.lock = Some(deployment.lock.clone());
        context.folder.write_run(&file)?;
        context.observer.started(&file);
        Ok(())
    }

    pub(super) async fn take_down(
        self,
        context: &RunContext<'_>,
        outcome: Result<RunOutcome>,
    ) -> Result<RunOutcome> {
        let unkept = match outcome.is_ok() && self.existing.is_none() {
            true => kept_data::keep(context, &self.cluster).await,
            false => Vec::new(),
        };
        let stopped = self.cluster.stop().await;
        // After the last client: nothing writes any more.
        let left = match &self.existing {
            Some(existing) => existing.remove_keys().await,
            None => Vec::new(),
        };
        unkept.iter().for_each(|sentence| context.observer.leftover_removed(sentence));
        if outcome.is_err() {
            left.iter().for_each(|sentence| context.observer.leftover_removed(sentence));
        }
        context.report_cleaned(&self.clean_up.finish().await);
        let mut outcome = outcome?;
        compress(context.folder).await;
        outcome.cleanup_errors.extend(left);
        outcome.cleanup_errors.extend(stopped.err().map(|error| error.to_string()));
        Ok(outcome)
    }
}

impl RunNodes {
    /// Opens the nodes of a run that came to its end to programs of this machine, until `stop` or for as long
    /// as the result lives. Errors: those of the outcome, or the nodes cannot be opened; they are taken down.
    pub(super) async fn keep_standing(
        self,
        context: &RunContext<'_>,
        outcome: Result<RunOutcome>,
        stop: &Arc<Stop>,
    ) -> Result<(RunOutcome, StandingServers)> {
        let serving = self.serving.get().cloned().filter(|_| outcome.is_ok() && self.existing.is_none());
        let Some((faults, versions)) = serving else {
            self.take_down(context, outcome).await?;
            bail!("no nodes of the run are left");
        };
        context.report_cleaned(&self.clean_up.finish().await);
        let left = LeftNodes { cluster: self.cluster, context: faults, versions };
        let logs = context.folder.logs();
        let logs = StandingLogs { folder: &logs, recorded_by: None };
        let standing = left.stand(&self.spec, self.driver.as_ref(), logs, stop).await?;
        compress(context.folder).await;
        Ok((outcome?, standing))
    }
}

/// Compresses a large history. One that cannot be compressed stays as it is: only space is lost.
async fn compress(folder: &RunFolder) {
    let history = folder.history();
    let compressing = tokio::task::spawn_blocking(move || compress_history(&history, COMPRESS_ABOVE_BYTES));
    if let Ok(Err(error)) = compressing.await {
        log::warn!("the history stays uncompressed: {error:#}");
    }
}

/// Clients that the plan kills for good, or that may be killed by each other.
fn clients_that_may_be_killed(spec: &RunSpec) -> Vec<String> {
    if spec.lock.capabilities(&spec.options.lock_options).fences_clients {
        return spec.topology.clients.clone();
    }
    let ends_clients = |fault: &&PlannedFault| {
        fencepost_nemesis::find(&fault.fault).is_some_and(|nemesis| nemesis.description().ends_clients)
    };
    let kills = spec.plan.faults.iter().filter(ends_clients);
    kills.flat_map(|fault| &fault.on).flat_map(|target| spec.topology.candidates(target)).collect()
}
