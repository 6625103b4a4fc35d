//! `pause`: stops clients or servers with SIGSTOP, for longer than the TTL, and wakes them with SIGCONT.
//!
//! This is the long garbage collection, the laptop lid, the migrated virtual machine: the process is gone for a
//! while and does not know it. In its other form the process is stopped and woken many times (a strobe): it limps, as
//! under a garbage collector that cannot keep up or on a machine that is overbooked.

use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::{Capability, ClusterError, Node};
use fencepost_history::prose::{and, was};
use fencepost_history::{FaultDescription, Stream};
use futures_util::future::try_join_all;
use nix::sys::signal::Signal;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) struct Pause;

impl Nemesis for Pause {
    fn name(&self) -> &'static str {
        "pause"
    }

    fn about(&self) -> &'static str {
        "stops clients or servers (SIGSTOP) for longer than the TTL, at a stretch or many times, then wakes them"
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Signal]
    }

    fn draw(&self, scene: &Scene, _: &Settings, random: &mut Stream) -> Option<Aim> {
        // Mostly clients: it is the stopped holder that the debate is about. More than half of them, so that a
        // strike usually finds a holder among them, but never all, so that somebody can take the lock meanwhile.
        let clients = scene.clients.len();
        let on = if clients > 1 && (scene.servers.is_empty() || random.random_bool(0.8)) {
            subset(&scene.clients, random.random_range(clients.div_ceil(2)..clients), random)
        } else if !scene.servers.is_empty() {
            subset(&scene.servers, random.random_range(1..=scene.servers.len().div_ceil(2)), random)
        } else {
            return None;
        };
        let length = around_ttl(scene.ttl, AROUND.0, AROUND.1, random);
        Some(Aim { on, length, dose: draw_dose(random) })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        prepare(strike)
    }
}

/// Shortest and longest pause, in TTLs.
pub(crate) const AROUND: (f64, f64) = (1.2, 2.0);

/// One of four pauses is a strobe.
const STROBES: f64 = 0.25;

/// A strobe: stopped and running in turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strobe {
    /// How long each stop lasts.
    stop_ms: u64,
    /// How long the process runs between two stops.
    run_ms: u64,
}

/// Nothing for one stop; for a strobe, how long to stop and how long to run.
pub(crate) fn draw_dose(random: &mut Stream) -> Value {
    if !random.random_bool(STROBES) {
        return Value::Null;
    }
    let strobe = Strobe { stop_ms: random.random_range(20..=200), run_ms: random.random_range(5..=50) };
    json!(strobe)
}

/// A strike of this nemesis or of `leader-pause`, ready.
pub(crate) fn prepare(strike: &Strike) -> Result<Box<dyn Fault>, String> {
    let strobe: Option<Strobe> = Option::deserialize(&strike.dose).map_err(|error| {
        format!("its dose is not understood: {error} (it takes stop_ms and run_ms, or none)")
    })?;
    if strobe.is_some_and(|strobe| strobe.stop_ms == 0 || strobe.run_ms == 0) {
        return Err("stop_ms and run_ms must be longer than 0".to_owned());
    }
    Ok(Box::new(Stopped { on: strike.on.clone(), strobe, pids: Vec::new(), strobing: None }))
}

struct Stopped {
    on: Vec<String>,
    strobe: Option<Strobe>,
    pids: Vec<(String, i32)>,
    strobing: Option<Strobing>,
}

/// A strobe at work. Dropping it ends it; the process may then be left stopped.
struct Strobing {
    end: watch::Sender<bool>,
    /// What each target went through: its name, how often it was stopped, and for how many milliseconds in all.
    tasks: JoinSet<(String, u64, u64)>,
}

impl Strobing {
    fn begin(strobe: Strobe, targets: Vec<(String, i32, Arc<dyn Node>)>) -> Strobing {
        let (end, ends) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (target, pid, node) in targets {
            let ends = ends.clone();
            tasks.spawn(async move {
                let (stops, stopped) = flicker(strobe, node.as_ref(), pid, ends).await;
                (target, stops, stopped.as_millis() as u64)
            });
        }
        Strobing { end, tasks }
    }

    /// Ends it, and gives what each target went through.
    async fn end(mut self) -> Map<String, Value> {
        self.end.send_replace(true);
        let mut told = Map::new();
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok((target, stops, stopped_ms)) = ended {
                told.insert(target, json!({"stops": stops, "stopped_ms": stopped_ms}));
            }
        }
        told
    }
}

/// Begins with a process that is stopped already. Gives the number of stops and their time.
async fn flicker(
    strobe: Strobe,
    node: &dyn Node,
    pid: i32,
    mut ends: watch::Receiver<bool>,
) -> (u64, Duration) {
    let (mut stops, mut stopped) = (1, Duration::ZERO);
    loop {
        let since = Instant::now();
        let over = ends_within(&mut ends, strobe.stop_ms).await;
        let woken = node.signal(pid, Signal::SIGCONT as i32).await;
        stopped += since.elapsed();
        // A process that is gone needs no waking: whoever killed it starts it again.
        if over || woken.is_err() || ends_within(&mut ends, strobe.run_ms).await {
            return (stops, stopped);
        }
        if stop(node, pid).await.is_err() {
            return (stops, stopped);
        }
        stops += 1;
    }
}

async fn ends_within(ends: &mut watch::Receiver<bool>, time_ms: u64) -> bool {
    tokio::time::timeout(Duration::from_millis(time_ms), ends.wait_for(|end| *end)).await.is_ok()
}

async fn stop(node: &dyn Node, pid: i32) -> Result<(), ClusterError> {
    node.signal(pid, Signal::SIGSTOP as i32).await
}

#[async_trait]
impl Fault for Stopped {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let (targets, was) = (and(&self.on), was(&self.on));
        let again = self.strobe.map_or(String::new(), |Strobe { stop_ms, run_ms }| {
            format!(" again and again, for {stop_ms} ms with {run_ms} ms in between")
        });
        FaultDescription {
            // Between two stops of a strobe its targets run.
            takes_down: self.strobe.is_none(),
            keeps_memory: true,
            sentence: format!("{targets} {was} stopped (SIGSTOP){again}"),
            healing: format!("{targets} ran again"),
            label: format!("{} stopped", self.on.join(" ")),
            summary: "processes or servers were stopped for a while".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        for target in &self.on {
            self.pids.push((target.clone(), world.pid(target)?));
        }
        let states = try_join_all(self.pids.iter().map(|(target, pid)| async move {
            stop(world.node(target)?.as_ref(), *pid).await?;
            let state = world.await_state(target, *pid, |state| state == Some('T')).await?;
            Ok::<_, FaultError>((target.clone(), state))
        }))
        .await?;
        let effective = states.iter().any(|(_, state)| *state == Some('T'));
        let observed = states
            .into_iter()
            .map(|(target, state)| (target, json!({"state": state})))
            .collect::<Map<_, _>>();
        if let Some(strobe) = self.strobe {
            let nodes =
                self.pids.iter().map(|(target, pid)| Ok((target.clone(), *pid, world.node(target)?.clone())));
            self.strobing = Some(Strobing::begin(strobe, nodes.collect::<Result<_, FaultError>>()?));
        }
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        let mut strobed = match self.strobing.take() {
            Some(strobing) => strobing.end().await,
            None => Map::new(),
        };
        let states = try_join_all(self.pids.iter().map(|(target, pid)| async move {
            let node = world.node(target)?;
            // A process that was killed while it was stopped has nothing to be woken.
            if node.state(*pid).await?.is_some() {
                node.signal(*pid, Signal::SIGCONT as i32).await?;
            }
            let state = world.await_state(target, *pid, |state| state != Some('T')).await?;
            if state == Some('T') {
                return Err(FaultError::Other(format!(
                    "{target} (process {pid}) is still stopped after SIGCONT"
                )));
            }
            Ok((target.clone(), json!({"state": state})))
        }))
        .await?;
        let mut healed: Map<String, Value> = states.into_iter().collect();
        for (target, seen) in &mut healed {
            if let Some(Value::Object(told)) = strobed.remove(target) {
                seen.as_object_mut().into_iter().for_each(|seen| seen.extend(told.clone()));
            }
        }
        Ok(Value::Object(healed))
    }
}
