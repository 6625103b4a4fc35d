//! A run between its first operation and its last.

use super::context::RunContext;
use crate::run::deployment::Deployment;
use crate::run::processes::ProcessContext;
use crate::run::recorder::Recorder;
use crate::run::script_player::ScriptPlayer;
use crate::settings::validation::RunSpec;
use crate::watch::clock_watch::ClockWatch;
use crate::watch::server_watch::ServerWatch;
use fencepost_history::{Kind, PHASE, RunPhase};
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;

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
