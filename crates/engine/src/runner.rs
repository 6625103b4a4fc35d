//! One run, from its first node to the last event of its history.

use crate::client_monitor::ClientMonitor;
use crate::deployment;
use crate::existing::Existing;
use crate::node_watch::NodeWatch;
use crate::observer::RunObserver;
use crate::phases::{self, Run, RunOutcome};
use crate::recorder::{Placement, Recorder};
use crate::script_player::DirectedScript;
use crate::stall_watch::StallWatch;
use crate::stop::{Stop, StopReason};
use crate::topology;
use crate::validation::RunSpec;
use anyhow::{Result, anyhow, bail};
use fencepost_cluster::{Cleaned, Cluster, ClusterSpec, Driver, Environment, NodeSpec};
use fencepost_history::run::{COMPRESS_ABOVE_BYTES, RunFile, RunFolder, compress_history};
use fencepost_history::{CUT_OFF, Kind, NodeKind, Writer};
use fencepost_nemesis::PlannedFault;
use serde_json::json;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes the images of these runs, and sets up the folders of their locks, before the first of them begins:
/// that takes disk and cores for seconds, which the runs beside it would lack. An image that cannot be made
/// fails the run that needs it. Ends early with `stop`.
pub async fn make_images<'a>(driver: &str, runs: impl Iterator<Item = &'a RunSpec>, stop: &Stop) {
    let nodes: Vec<NodeSpec> = runs.flat_map(deployment::nodes).collect();
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

/// Carries out one of several specs. Its own stop: a run that fails must not end the others; Ctrl-C (`all`)
/// ends all. Errors: as [`run`].
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

/// Carries out a spec, into its folder; `command` repeats it. With a `script` the clients follow that instead
/// of the workload. The folder is judged afterwards. Errors: Fencepost or the environment failed; all is
/// taken down before.
pub async fn run(
    spec: &RunSpec,
    command: &str,
    folder: &RunFolder,
    stop: &Arc<Stop>,
    script: Option<&DirectedScript>,
    observer: Arc<dyn RunObserver>,
) -> Result<RunOutcome> {
    let mut file = spec.options.run_file(command.to_owned());
    file.lock = Some(spec.lock.facts(&spec.options.lock_options, None, &[]));
    folder.write_run(&file)?;
    let driver = fencepost_cluster::select(&spec.options.driver).await?;
    file.driver = driver.name().to_owned();
    file.engine = driver.about().await;
    let spec = &fitted(spec, driver.as_ref()).await?;
    folder.write("plan.toml", spec.plan.to_toml().as_bytes())?;
    observer.planned(&spec.plan);
    let name = run_name(spec);
    let existing = interruptible(stop, Existing::of(spec, &name)).await?;
    if let Some(existing) = &existing {
        file.servers = interruptible(stop, existing.look()).await?;
        folder.write_run(&file)?;
    }
    let (cleaned, clean_up) = fencepost_cluster::clean_up_before(driver.as_ref()).await?;
    report_cleaned(&cleaned, observer.as_ref());
    let cluster_spec = ClusterSpec { run: name, nodes: deployment::nodes(spec), logs: folder.logs() };
    let cluster = interruptible(stop, async { Ok(driver.start(&cluster_spec).await?) }).await?;
    // From here on the cluster is taken down whatever happens.
    let run = Run { spec, folder, stop, script, observer: observer.clone() };
    let outcome = on_cluster(&run, file, &cluster, existing.as_ref()).await;
    let stopped = cluster.stop().await;
    // After the last client: nothing writes any more.
    let left = match &existing {
        Some(existing) => existing.remove_keys().await,
        None => Vec::new(),
    };
    if outcome.is_err() {
        left.iter().for_each(|sentence| observer.leftover_removed(sentence));
    }
    report_cleaned(&clean_up.finish().await, observer.as_ref());
    let mut outcome = outcome?;
    compress(folder).await;
    outcome.cleanup_errors.extend(left);
    outcome.cleanup_errors.extend(stopped.err().map(|error| error.to_string()));
    Ok(outcome)
}

/// Reports what killed runs had left, and what of it could not be removed: that keeps no run from beginning.
fn report_cleaned(cleaned: &Cleaned, observer: &dyn RunObserver) {
    for sentence in cleaned.lines().iter().chain(&cleaned.failures) {
        observer.leftover_removed(sentence);
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

/// A name that no other run on this machine has, nor another run of this program.
pub(crate) fn run_name(spec: &RunSpec) -> String {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{}", std::process::id(), spec.seed)
}

/// The nemeses of a swarm are drawn from what this driver offers here. Refuses a nemesis that needs more.
async fn fitted(spec: &RunSpec, driver: &dyn Driver) -> Result<RunSpec> {
    if spec.nemeses.is_empty() {
        return Ok(spec.clone());
    }
    let offered = driver.supports().await;
    let spec = spec.fitted(&offered)?;
    for nemesis in &spec.nemeses {
        if let Some(unmet) = nemesis.description().unmet(&offered) {
            bail!(
                "the nemesis {} needs {unmet}, which the driver {} does not offer on this machine; `fencepost doctor` says why",
                nemesis.name(),
                driver.name()
            );
        }
    }
    Ok(spec)
}

/// Runs `work`, or gives up at Ctrl-C. Work that had begun is dropped, and cleans up after itself.
pub(crate) async fn interruptible<T>(stop: &Stop, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        () = stop.pulled() => Err(stopped_by(stop)),
    }
}

fn stopped_by(stop: &Stop) -> anyhow::Error {
    match stop.reason() {
        Some(StopReason::Failed(sentence)) => anyhow!("{sentence}"),
        _ => anyhow!("interrupted before the test was over"),
    }
}

async fn on_cluster(
    run: &Run<'_>,
    mut file: RunFile,
    cluster: &Cluster,
    existing: Option<&Arc<Existing>>,
) -> Result<RunOutcome> {
    let Run { spec, stop, .. } = *run;
    let monitor =
        Arc::new(ClientMonitor::new(stop.clone(), clients_that_may_be_killed(spec), run.folder.logs()));
    let logs = run.folder.logs();
    let _watch = NodeWatch::begin(&cluster.nodes, &logs, stop);
    let doors = async {
        match existing {
            Some(existing) => {
                let servers = deployment::nodes_of(cluster, NodeKind::Server);
                Ok(Some(existing.open_doors(&servers, stop).await?))
            }
            None => Ok(None),
        }
    };
    // Open until the run is over.
    let _doors = interruptible(stop, doors).await?;
    let starting = deployment::start(spec, cluster, &logs, monitor.clone(), existing);
    let deployment = interruptible(stop, starting).await?;
    for client in &deployment.clients {
        if let Some(node) = cluster.node(client.name()) {
            monitor.watch(client.name(), node.clone(), client.hello.pid);
        }
    }
    if existing.is_none() {
        file.servers.clone_from(&deployment.versions);
    }
    file.lock = Some(deployment.lock.clone());
    run.folder.write_run(&file)?;
    run.observer.started(&file);
    let placement = Placement { slots: spec.options.concurrency, clients: spec.options.clients };
    let history = Writer::create(&run.folder.history())?;
    let recorder = Arc::new(Recorder::new(history, placement, stop.clone(), spec.options.fail_fast));
    monitor.record_to(recorder.clone());
    let stalls = StallWatch::begin(&cluster.nodes, &recorder, spec.options.ttl.0);
    let outcome = phases::all(run, &deployment, &recorder).await;
    drop(stalls);
    monitor.await_inquiries().await;
    monitor.expect_ends();
    let outcome = match stop.reason() {
        None | Some(StopReason::Violation) => outcome,
        Some(_) => Err(stopped_by(stop)),
    };
    if let Err(error) = &outcome {
        recorder.nemesis(Kind::Info, CUT_OFF, json!(error.to_string()), None);
    }
    outcome
}

/// Clients that the plan kills for good, or that may be killed by each other.
fn clients_that_may_be_killed(spec: &RunSpec) -> Vec<String> {
    if spec.lock.capabilities(&spec.options.lock_options).fences_clients {
        return topology::client_names(&spec.options);
    }
    let ends_clients = |fault: &&PlannedFault| {
        fencepost_nemesis::find(&fault.fault).is_some_and(|nemesis| nemesis.description().ends_clients)
    };
    let kills = spec.plan.faults.iter().filter(ends_clients);
    let topology = spec.topology();
    kills.flat_map(|fault| &fault.on).flat_map(|target| topology.candidates(target)).collect()
}
