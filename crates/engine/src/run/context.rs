//! What is around a run, and the run itself between its first operation and its last.

use crate::run::deployment::Deployment;
use crate::run::observer::RunObserver;
use crate::run::processes::ProcessContext;
use crate::run::recorder::Recorder;
use crate::run::script_player::ScriptPlayer;
use crate::settings::validation::RunSpec;
use crate::stop::Stop;
use crate::watch::clock_watch::ClockWatch;
use crate::watch::server_watch::ServerWatch;
use fencepost_cluster::Cleaned;
use fencepost_history::run::RunFolder;
use fencepost_history::{Kind, PHASE, RunPhase};
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;

/// What is around a run, and no part of it.
#[derive(Clone)]
pub(crate) struct RunContext<'a> {
    pub folder: &'a RunFolder,
    pub stop: &'a Arc<Stop>,
    pub observer: Arc<dyn RunObserver>,
}

impl RunContext<'_> {
    /// Reports what killed runs had left, and what could not be removed, which stops no run.
    pub(super) fn report_cleaned(&self, cleaned: &Cleaned) {
        for sentence in cleaned.lines().iter().chain(&cleaned.failures) {
            self.observer.leftover_removed(sentence);
        }
    }
}

/// A run between its first operation and its last.
pub(super) struct Playing<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) context: RunContext<'a>,
    pub(super) deployment: &'a Deployment,
    pub(super) recorder: Arc<Recorder>,
    pub(super) process_context: Arc<ProcessContext>,
    pub(super) processes: JoinSet<()>,
    pub(super) player: Option<ScriptPlayer>,
    pub(super) servers: ServerWatch,
    pub(super) clocks: Option<ClockWatch>,
}

pub(super) fn phase(recorder: &Recorder, phase: RunPhase) {
    recorder.nemesis(Kind::Info, PHASE, json!(phase.name()), None);
}
