//! One run, from its first node to its last event: prepared, started, running, healed, read once more.

pub(crate) mod aiming;
pub mod client_connection;
pub(crate) mod client_start;
mod context;
pub(crate) mod deployment;
mod healed;
pub(crate) mod injection;
mod kept_data;
pub(crate) mod lock_state;
mod nodes;
pub(crate) mod observer;
pub(crate) mod other_clients;
mod prepared;
pub(crate) mod prepared_fault;
pub mod processes;
pub mod recorder;
pub(crate) mod run_nodes;
mod running;
pub(crate) mod script_player;

use crate::run::observer::RunObserver;
use crate::run::script_player::DirectedScript;
use crate::settings::node_specs::node_specs;
use crate::settings::validation::RunSpec;
use crate::standing::StandingServers;
use crate::stop::Stop;
use anyhow::Result;
pub(crate) use context::RunContext;
use fencepost_cluster::{Environment, NodeSpec};
use fencepost_history::run::RunFolder;
pub use healed::RunOutcome;
use prepared::Prepared;
#[cfg(test)]
pub(crate) use running::Running;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Carries out a spec, into its folder; `command` repeats it. With a `script` the clients follow that instead
/// of the workload. The folder is judged afterwards. Errors: the environment failed; all is taken down.
pub async fn run(
    spec: &RunSpec,
    command: &str,
    folder: &RunFolder,
    stop: &Arc<Stop>,
    script: Option<&DirectedScript>,
    observer: Arc<dyn RunObserver>,
) -> Result<RunOutcome> {
    let context = RunContext { folder, stop, observer };
    let prepared = Prepared::fitted(spec, command, &context).await?;
    let nodes = prepared.start_nodes(&context).await?;
    // From here on the nodes are taken down whatever happens.
    let outcome = nodes.go_through(&context, script).await;
    nodes.take_down(&context, outcome).await
}

/// Carries out one of several specs: its failure ends no other; `all` (Ctrl-C) does. Errors: as [`run`].
pub async fn run_beside_others(
    spec: &RunSpec,
    command: &str,
    folder: &RunFolder,
    all: &Stop,
    script: Option<&DirectedScript>,
    observer: Arc<dyn RunObserver>,
) -> Result<RunOutcome> {
    let stop = Arc::new(Stop::default());
    tokio::select! {
        outcome = run(spec, command, folder, &stop, script, observer) => outcome,
        () = stop.relay(all) => unreachable!("relays until it is dropped"),
    }
}

/// Carries out a spec as one of several ([`run_beside_others`]), and leaves its nodes standing, open to
/// programs of this machine and to faults by hand. Errors: as [`run`]; all is taken down before.
pub async fn run_and_keep(
    spec: &RunSpec,
    command: &str,
    folder: &RunFolder,
    all: &Arc<Stop>,
    script: Option<&DirectedScript>,
    observer: Arc<dyn RunObserver>,
) -> Result<(RunOutcome, StandingServers)> {
    let stop = Arc::new(Stop::default());
    let kept = async {
        let context = RunContext { folder, stop: &stop, observer };
        let prepared = Prepared::fitted(spec, command, &context).await?;
        let nodes = prepared.start_nodes(&context).await?;
        let outcome = nodes.go_through(&context, script).await;
        nodes.keep_standing(&context, outcome, all).await
    };
    tokio::select! {
        kept = kept => kept,
        () = stop.relay(all) => unreachable!("relays until it is dropped"),
    }
}

/// Makes the images of these runs, and sets up the folders of their locks, before the first run, which would
/// lack disk and cores. An image that cannot be made fails the run that needs it. Ends early with `stop`.
pub async fn make_images<'a>(driver: &str, runs: impl Iterator<Item = &'a RunSpec>, stop: &Stop) {
    let nodes: Vec<NodeSpec> = runs.flat_map(node_specs).collect();
    let images: BTreeSet<&'static str> = nodes.iter().map(|node| node.image).collect();
    let environments: HashSet<&Arc<Environment>> =
        nodes.iter().filter_map(|node| node.environment.as_ref()).collect();
    let made = async {
        let Ok(driver) = fencepost_cluster::select(driver).await else { return };
        for image in images {
            let _ = driver.prepare(image).await;
        }
        for environment in environments {
            let _ = driver.prepare_environment(environment).await;
        }
        // An image is written faster than the disk takes it, and the next writer waits for that: a history.
        let _ = tokio::task::spawn_blocking(nix::unistd::sync).await;
    };
    tokio::select! {
        () = made => {}
        () = stop.pulled() => {}
    }
}
