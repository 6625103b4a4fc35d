//! One run, from the first node to the verdict.

use crate::crew::{self, Crew};
use crate::link::{Link, Listener};
use crate::live;
use crate::processes::{Shared, Times, closing_reads, run_process};
use crate::recorder::{Recorder, Seats};
use crate::results::{RunFile, RunFolder};
use crate::spec::{Parts, RunSpec};
use crate::stop::{Reason, Stop};
use crate::strikes::Strikes;
use anyhow::{Result, anyhow, bail};
use fencepost_cluster::{Cluster, ClusterSpec, Driver};
use fencepost_history::{Kind, Writer};
use fencepost_locks::protocol::Notice;
use fencepost_nemesis::Plan;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinSet;

/// Carries out a spec, into its folder. `announce` is called once the servers run, before the first operation.
/// The verdict is drawn from the folder afterwards, as it would be later. What this gives are troubles, said aloud and
/// no part of the verdict: faults that could not be healed, nodes that could not be removed.
///
/// # Errors
/// Fencepost or the environment failed. Whatever was started is taken down before this returns.
pub async fn run(
    spec: &RunSpec,
    parts: &Parts,
    folder: &RunFolder,
    stop: &Arc<Stop>,
    announce: impl FnOnce(&RunFile),
) -> Result<Vec<String>> {
    let mut run = RunFile::new(spec);
    folder.write_run(&run)?;
    folder.write("plan.toml", parts.plan.to_toml().as_bytes())?;
    let driver = fencepost_cluster::select(&spec.driver).await?;
    run.driver = driver.name().to_owned();
    check_capabilities(parts, driver.as_ref()).await?;
    for removed in driver.clean_up_leftovers().await? {
        eprintln!("{removed}");
    }
    let cluster_spec = ClusterSpec {
        run: format!("{}-{}", std::process::id(), spec.seed),
        nodes: crew::nodes(spec, parts),
        logs: folder.logs(),
    };
    let cluster = interruptible(stop, async { Ok(driver.start(&cluster_spec).await?) }).await?;
    // From here on the cluster is taken down whatever happens.
    let ended = on_cluster(spec, parts, &cluster, folder, &mut run, stop, announce).await;
    let stopped = cluster.stop().await;
    let mut troubles = ended?;
    troubles.extend(stopped.err().map(|error| error.to_string()));
    Ok(troubles)
}

/// Refuses a nemesis that needs what this driver does not offer here.
async fn check_capabilities(parts: &Parts, driver: &dyn Driver) -> Result<()> {
    if parts.nemeses.is_empty() {
        return Ok(());
    }
    let offered = driver.supports().await;
    for nemesis in &parts.nemeses {
        if let Some(unmet) = nemesis.unmet(&offered) {
            bail!(
                "the nemesis {} needs {unmet}, which the driver {} does not offer on this machine; `fencepost doctor` says why",
                nemesis.name(),
                driver.name()
            );
        }
    }
    Ok(())
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
    run: &mut RunFile,
    stop: &Arc<Stop>,
    announce: impl FnOnce(&RunFile),
) -> Result<Vec<String>> {
    let ears = Arc::new(Ears { stop: stop.clone(), recorder: OnceLock::new(), over: AtomicBool::new(false) });
    let crew = interruptible(stop, crew::start(spec, parts, cluster, ears.clone())).await?;
    run.servers.clone_from(&crew.versions);
    folder.write_run(run)?;
    announce(run);
    let seats = Seats { slots: spec.concurrency, clients: spec.clients };
    let recorder =
        Arc::new(Recorder::new(Writer::create(&folder.history())?, seats, stop.clone(), spec.fail_fast));
    let _ = ears.recorder.set(recorder.clone());
    let troubles = test(spec, parts, &crew, &recorder, stop).await;
    ears.over.store(true, Ordering::Release);
    match stop.reason() {
        None | Some(Reason::Violation) => troubles,
        Some(_) => Err(stopped_by(stop)),
    }
}

/// The phases of a test: faults on; everything healed; closing reads.
async fn test(
    spec: &RunSpec,
    parts: &Parts,
    crew: &Crew,
    recorder: &Arc<Recorder>,
    stop: &Arc<Stop>,
) -> Result<Vec<String>> {
    let times = Times {
        ttl: spec.ttl(),
        acquire: Duration::from_millis(spec.acquire_timeout_ms),
        free_again: 2 * spec.ttl() + Duration::from_secs(5),
        patience: 10 * spec.ttl() + Duration::from_secs(5),
    };
    let shared = Arc::new(Shared::new(recorder.clone(), times, spec.concurrency));
    let asked: Vec<&str> = parts.nemeses.iter().map(|nemesis| nemesis.name()).collect();
    recorder.nemesis(Kind::Info, "asked", json!(asked), None);
    phase(recorder, "main");
    let strikes = Strikes::begin(&parts.plan, prepare(&parts.plan)?, crew.world.clone(), recorder.clone());
    let mut processes = begin_processes(spec, parts, crew, &shared);
    tokio::select! {
        () = tokio::time::sleep(spec.time_limit()) => {}
        () = stop.pulled() => {}
        () = live::show(recorder.clone(), &strikes, spec.time_limit()) => {}
    }
    phase(recorder, "heal");
    shared.closing.set();
    let unhealed = strikes.heal_all().await;
    // Processes end what they are in the middle of. After Ctrl-C or a failure nothing is worth that wait.
    tokio::select! {
        () = async { while processes.join_next().await.is_some() {} } => {}
        () = only_if_failed(stop) => {}
    }
    processes.abort_all();
    phase(recorder, "closing");
    tokio::select! {
        () = closing_reads(&shared, spec, &crew.links, parts.workload.uses_storage()) => {}
        () = only_if_failed(stop) => {}
    }
    Ok(unhealed)
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

fn prepare(plan: &Plan) -> Result<Vec<Box<dyn fencepost_nemesis::Fault>>> {
    plan.strikes
        .iter()
        .map(|strike| {
            let nemesis = fencepost_nemesis::find(&strike.fault)
                .ok_or_else(|| anyhow!("the plan names a nemesis {} that there is not", strike.fault))?;
            nemesis.prepare(strike).map_err(|sentence| anyhow!(sentence))
        })
        .collect()
}

fn begin_processes(spec: &RunSpec, parts: &Parts, crew: &Crew, shared: &Arc<Shared>) -> JoinSet<()> {
    let mut processes = JoinSet::new();
    for slot in 0..spec.concurrency {
        let link: Arc<Link> = crew.links[slot % crew.links.len()].clone();
        let (workload, settings, seed) = (parts.workload, spec.workload_settings(), spec.seed);
        let new_script =
            move |process| workload.script(&settings, seed.stream(&format!("process-{process}")));
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
}

impl Listener for Ears {
    fn notice(&self, notice: Notice) {
        if let Some(recorder) = self.recorder.get() {
            let mut value = serde_json::Map::new();
            value.extend(notice.reason.map(|reason| ("reason".to_owned(), json!(reason))));
            value.extend(notice.age_ms.map(|age_ms| ("age_ms".to_owned(), json!(age_ms))));
            let value = if value.is_empty() { Value::Null } else { Value::Object(value) };
            recorder.notice(notice.process, &notice.event, &notice.key, value);
        }
    }

    fn gone(&self, client: &str, reason: &str) {
        if !self.over.load(Ordering::Acquire) {
            self.stop.fail(format!("{reason}; the test cannot go on without it (see logs/{client}.log)"));
        }
    }
}
