//! One run, from the first node to the verdict.

use crate::cast::{Cast, Played, Stage, Voice};
use crate::clocks::Clocks;
use crate::crew::{self, Crew};
use crate::link::{Link, Listener};
use crate::live;
use crate::processes::{Shared, Times, closing_reads, run_process};
use crate::recorder::{Recorder, Seats};
use crate::results::{COMPRESS_ABOVE_BYTES, RunFile, RunFolder, compress_history};
use crate::say;
use crate::spec::{Parts, RunSpec};
use crate::stop::{Reason, Stop};
use crate::strikes::{Ready, Strikes};
use anyhow::{Result, anyhow, bail};
use fencepost_cluster::{Cluster, ClusterSpec, Driver};
use fencepost_history::{Kind, Writer, f};
use fencepost_locks::protocol::Notice;
use fencepost_nemesis::{Plan, Trigger};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinSet;

/// What a directed run has besides its spec.
pub struct Direction {
    pub cast: Cast,
    /// Hears each sentence of the story as it is told, with the time since the run began.
    pub aloud: Voice,
}

/// How a run is to go.
pub enum Manner {
    /// By itself, and the terminal shows how it goes.
    Shown,
    /// Beside others, in silence.
    Quiet,
    /// As its cast wants it.
    Directed(Direction),
}

impl Manner {
    fn direction(&self) -> Option<&Direction> {
        match self {
            Manner::Directed(direction) => Some(direction),
            Manner::Shown | Manner::Quiet => None,
        }
    }
}

/// What a run leaves besides its folder.
pub struct Ended {
    /// Said aloud, and no part of the verdict: faults that could not be healed, nodes that could not be removed.
    pub troubles: Vec<String>,
    /// Of a directed run.
    pub played: Option<Played>,
}

/// How long the processes go on without faults, in TTLs: in the first one, locks run out whose holders died or whose
/// release was lost; in the second, the lock has to be had again.
const LIVENESS_TTLS: u32 = 2;

/// Makes what the nodes of these runs are made of, before the first of them begins: that takes disk and cores for seconds,
/// which the runs beside it would lack. What cannot be made, the runs that need it will say. Ends early with `stop`.
pub async fn make_ready<'a>(driver: &str, runs: impl Iterator<Item = (&'a RunSpec, &'a Parts)>, stop: &Stop) {
    let images: BTreeSet<&'static str> =
        runs.flat_map(|(spec, parts)| crew::nodes(spec, parts)).map(|node| node.image).collect();
    let made = async {
        let Ok(driver) = fencepost_cluster::select(driver).await else { return };
        for image in images {
            let _ = driver.prepare(image).await;
        }
        // An image is written faster than the disk takes it, and who writes next waits for that: a history.
        let _ = tokio::task::spawn_blocking(nix::unistd::sync).await;
    };
    tokio::select! {
        () = made => {}
        () = stop.pulled() => {}
    }
}

/// Carries out one of several specs. Its stop is its own: one that fails must not end the others. Ctrl-C (`all`) ends
/// them all.
///
/// # Errors
/// Those of [`run`].
pub async fn run_beside_others(
    spec: &RunSpec,
    parts: &Parts,
    folder: &RunFolder,
    all: &Stop,
    manner: Manner,
) -> Result<Ended> {
    let stop = Arc::new(Stop::default());
    tokio::select! {
        ended = run(spec, parts, folder, &stop, manner, |_| ()) => ended,
        () = stop.relay(all) => unreachable!("waits for the run once it has been told"),
    }
}

/// Carries out a spec, into its folder. `announce` is called once the servers run, before the first operation.
/// The verdict is drawn from the folder afterwards, as it would be later.
///
/// # Errors
/// Fencepost or the environment failed. Whatever was started is taken down before this returns.
pub async fn run(
    spec: &RunSpec,
    parts: &Parts,
    folder: &RunFolder,
    stop: &Arc<Stop>,
    manner: Manner,
    announce: impl FnOnce(&RunFile),
) -> Result<Ended> {
    let mut run = RunFile::new(spec);
    folder.write_run(&run)?;
    let driver = fencepost_cluster::select(&spec.driver).await?;
    run.driver = driver.name().to_owned();
    let parts = &fitted(spec, parts, driver.as_ref()).await?;
    folder.write("plan.toml", parts.plan.to_toml().as_bytes())?;
    if !parts.plan.swarm.is_empty() && !matches!(manner, Manner::Quiet) {
        let enabled: Vec<String> = parts.plan.swarm.iter().map(ToString::to_string).collect();
        say!("swarm     {}", enabled.join("\n          "));
    }
    for removed in driver.clean_up_leftovers().await? {
        eprintln!("{removed}");
    }
    let cluster_spec =
        ClusterSpec { run: run_name(spec), nodes: crew::nodes(spec, parts), logs: folder.logs() };
    let cluster = interruptible(stop, async { Ok(driver.start(&cluster_spec).await?) }).await?;
    // From here on the cluster is taken down whatever happens.
    let announce = |servers: &[String]| {
        run.servers = servers.to_vec();
        folder.write_run(&run)?;
        announce(&run);
        Ok(())
    };
    let ended = on_cluster(spec, parts, &cluster, folder, stop, manner, announce).await;
    let stopped = cluster.stop().await;
    let mut ended = ended?;
    compress(folder).await;
    ended.troubles.extend(stopped.err().map(|error| error.to_string()));
    Ok(ended)
}

/// Compresses a large history. One that cannot be, stays as it is: nothing is lost but space.
async fn compress(folder: &RunFolder) {
    let history = folder.history();
    let compressing = tokio::task::spawn_blocking(move || compress_history(&history, COMPRESS_ABOVE_BYTES));
    if let Ok(Err(error)) = compressing.await {
        tracing::warn!("the history stays uncompressed: {error:#}");
    }
}

/// One that no other run on this machine has, those of this process included.
fn run_name(spec: &RunSpec) -> String {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{}", std::process::id(), spec.seed)
}

/// The parts of a swarm are drawn from what this driver offers here. Refuses a nemesis that needs more.
async fn fitted(spec: &RunSpec, parts: &Parts, driver: &dyn Driver) -> Result<Parts> {
    if parts.nemeses.is_empty() {
        return Ok(parts.clone());
    }
    let offered = driver.supports().await;
    let parts = spec.fitted(parts, &offered)?;
    for nemesis in &parts.nemeses {
        if let Some(unmet) = nemesis.unmet(&offered) {
            bail!(
                "the nemesis {} needs {unmet}, which the driver {} does not offer on this machine; `fencepost doctor` says why",
                nemesis.name(),
                driver.name()
            );
        }
    }
    Ok(parts)
}

/// Runs `work`, or gives up at Ctrl-C. What `work` had begun is dropped, and cleans up after itself.
async fn interruptible<T>(stop: &Stop, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        () = stop.pulled() => Err(stopped_by(stop)),
    }
}

fn stopped_by(stop: &Stop) -> anyhow::Error {
    match stop.reason() {
        Some(Reason::Failed(sentence)) => anyhow!("{sentence}"),
        _ => anyhow!("interrupted before the test was over"),
    }
}

async fn on_cluster(
    spec: &RunSpec,
    parts: &Parts,
    cluster: &Cluster,
    folder: &RunFolder,
    stop: &Arc<Stop>,
    manner: Manner,
    announce: impl FnOnce(&[String]) -> Result<()>,
) -> Result<Ended> {
    let ears = Arc::new(Ears {
        stop: stop.clone(),
        recorder: OnceLock::new(),
        over: AtomicBool::new(false),
        doomed: doomed_clients(spec, parts),
    });
    let crew = interruptible(stop, crew::start(spec, parts, cluster, ears.clone())).await?;
    announce(&crew.versions)?;
    let seats = Seats { slots: spec.concurrency, clients: spec.clients };
    let recorder =
        Arc::new(Recorder::new(Writer::create(&folder.history())?, seats, stop.clone(), spec.fail_fast));
    let _ = ears.recorder.set(recorder.clone());
    let ended = test(spec, parts, &crew, &recorder, folder, stop, manner).await;
    ears.over.store(true, Ordering::Release);
    match stop.reason() {
        None | Some(Reason::Violation) => ended,
        Some(_) => Err(stopped_by(stop)),
    }
}

/// The phases of a test: faults on; everything healed, and the service again as good as ever; closing reads.
async fn test(
    spec: &RunSpec,
    parts: &Parts,
    crew: &Crew,
    recorder: &Arc<Recorder>,
    folder: &RunFolder,
    stop: &Arc<Stop>,
    manner: Manner,
) -> Result<Ended> {
    let times = times(spec, parts, manner.direction());
    let shared = Arc::new(Shared::new(recorder.clone(), times, spec.concurrency));
    let asked: Vec<&str> = parts.nemeses.iter().map(|nemesis| nemesis.name()).collect();
    recorder.nemesis(Kind::Info, "asked", json!(asked), None);
    let servers = crew::scene(spec, parts.backend, parts.workload).servers;
    recorder.nemesis(Kind::Info, "servers", json!(servers), None);
    let mut stage = manner.direction().map(|Direction { cast, aloud }| Stage::rehearse(cast, &shared, aloud));
    // Counted from the first event on: processes begin after this.
    let enough = acquired_enough(spec, recorder);
    phase(recorder, "main");
    let moved = fencepost_nemesis::moved_clocks(&parts.plan, &servers);
    let clocks = Clocks::watch(moved, crew.world.clone(), recorder.clone(), folder.clocks())?;
    let strikes = Strikes::begin(&parts.plan, prepare(&parts.plan)?, crew.world.clone(), recorder.clone());
    let mut processes = match &mut stage {
        Some(stage) => {
            stage.begin(&shared, |client| crew.seat(client));
            JoinSet::new()
        }
        None => begin_processes(spec, parts, crew, &shared),
    };
    let directed = stage.is_some();
    tokio::select! {
        () = tokio::time::sleep(spec.time_limit()) => {}
        () = enough => {}
        () = stop.pulled() => {}
        () = all_played(stage.as_mut()) => {}
        () = live::show(recorder.clone(), &strikes, spec.time_limit()), if matches!(manner, Manner::Shown) => {}
    }
    phase(recorder, "heal");
    let mut troubles = strikes.heal_all().await;
    // A story ends where its author ends it.
    if !parts.nemeses.is_empty() && !directed {
        phase(recorder, "liveness");
        tokio::select! {
            () = tokio::time::sleep(LIVENESS_TTLS * spec.ttl()) => {}
            () = stop.pulled() => {}
        }
    }
    shared.closing.set();
    // Processes end what they are in the middle of. After Ctrl-C or a failure nothing is worth that wait.
    tokio::select! {
        () = async { while processes.join_next().await.is_some() {} } => {}
        () = only_if_failed(stop) => {}
    }
    processes.abort_all();
    let unwritten = match clocks {
        Some(clocks) => clocks.stop().await,
        None => None,
    };
    let played = match stage {
        Some(stage) => Some(stage.close().await),
        None => None,
    };
    phase(recorder, "closing");
    tokio::select! {
        () = closing_reads(&shared, spec, &crew.links, parts.workload.uses_storage()) => {}
        () = only_if_failed(stop) => {}
    }
    troubles.extend(unwritten);
    Ok(Ended { troubles, played })
}

/// How long operations may take in this run.
fn times(spec: &RunSpec, parts: &Parts, direction: Option<&Direction>) -> Times {
    let bound = direction.and_then(|direction| direction.cast.free_again);
    Times {
        ttl: spec.ttl(),
        acquire: Duration::from_millis(spec.acquire_timeout_ms),
        free_again: bound.unwrap_or(2 * spec.ttl() + Duration::from_secs(5))
            + parts.backend.stays_taken(&spec.options),
        patience: 10 * spec.ttl() + Duration::from_secs(5),
    }
}

/// Returns when as many acquires have succeeded as the spec asks for; never where it sets no such end.
fn acquired_enough(spec: &RunSpec, recorder: &Recorder) -> impl Future<Output = ()> + use<> {
    let acquires = |times| Trigger { times, ..Trigger::of(f::ACQUIRE) };
    let reached = spec.acquisitions.map(|count| recorder.await_event(acquires(count)));
    async {
        match reached {
            Some(reached) => drop(reached.await),
            None => std::future::pending().await,
        }
    }
}

/// Returns when a directed run has come to its end; never for any other.
async fn all_played(stage: Option<&mut Stage>) {
    match stage {
        Some(stage) => stage.all_played().await,
        None => std::future::pending().await,
    }
}

/// Clients that the plan kills for good, or that may be killed by each other.
fn doomed_clients(spec: &RunSpec, parts: &Parts) -> Vec<String> {
    if parts.backend.fences_clients() {
        return crew::client_names(spec);
    }
    let kills = parts.plan.strikes.iter().filter(|strike| strike.fault == "kill");
    kills.flat_map(|strike| strike.on.clone()).collect()
}

/// Returns when the run is to end for any reason but a violation.
async fn only_if_failed(stop: &Stop) {
    stop.pulled().await;
    if stop.reason() == Some(&Reason::Violation) {
        std::future::pending::<()>().await;
    }
}

fn phase(recorder: &Recorder, name: &str) {
    recorder.nemesis(Kind::Info, "phase", json!(name), None);
}

fn prepare(plan: &Plan) -> Result<Vec<Ready>> {
    plan.strikes
        .iter()
        .map(|strike| {
            let nemesis = fencepost_nemesis::find(&strike.fault)
                .ok_or_else(|| anyhow!("the plan names a nemesis {} that there is not", strike.fault))?;
            let fault = nemesis.prepare(strike).map_err(|sentence| anyhow!(sentence))?;
            Ok((nemesis, fault))
        })
        .collect()
}

fn begin_processes(spec: &RunSpec, parts: &Parts, crew: &Crew, shared: &Arc<Shared>) -> JoinSet<()> {
    let mut processes = JoinSet::new();
    for slot in 0..spec.concurrency {
        let link: Arc<Link> = crew.links[slot % crew.links.len()].clone();
        let (workload, settings, seed) = (parts.workload, spec.workload_settings(slot), spec.seed);
        let new_script =
            move |process| workload.script(&settings, process, seed.stream(&format!("process-{process}")));
        processes.spawn(run_process(shared.clone(), link, slot, new_script));
    }
    processes
}

/// Hears what the clients say unasked.
struct Ears {
    stop: Arc<Stop>,
    recorder: OnceLock<Arc<Recorder>>,
    /// Set when the clients are about to be taken down: they may go.
    over: AtomicBool,
    /// Clients that a fault kills, or another client.
    doomed: Vec<String>,
}

impl Listener for Ears {
    fn notice(&self, notice: Notice) {
        if let Some(recorder) = self.recorder.get() {
            let mut value = serde_json::Map::new();
            value.extend(notice.reason.map(|reason| ("reason".to_owned(), json!(reason))));
            value.extend(notice.point.map(|point| ("point".to_owned(), json!(point))));
            value.extend(notice.age_ms.map(|age_ms| ("age_ms".to_owned(), json!(age_ms))));
            let value = if value.is_empty() { Value::Null } else { Value::Object(value) };
            recorder.notice(notice.process, &notice.event, &notice.key, value);
        }
    }

    fn gone(&self, client: &str, reason: &str) {
        let expected = self.doomed.iter().any(|doomed| doomed == client);
        if !expected && !self.over.load(Ordering::Acquire) {
            self.stop.fail(format!("{reason}; the test cannot go on without it (see logs/{client}.log)"));
        }
    }
}
