//! `pause`: stops clients or servers with SIGSTOP, for longer than the TTL, and wakes them with SIGCONT;
//! `leader-pause` stops the server that leads.
//!
//! This is a long garbage collection, a closed laptop, a migrated virtual machine: the process does not know
//! that it was gone. A strobe stops and wakes it many times, as an overloaded collector or machine does.

use crate::context::FaultContext;
use crate::existing_servers::HookAction;
use crate::fault::{Fault, FaultError, Observation};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::{around_ttl, subset};
use crate::plan::roles::Role;
use crate::plan::topology::Topology;
use crate::processes::by_hook::{self, ByHook};
use crate::processes::strobe::{Strobe, Strobing, stop};
use async_trait::async_trait;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal, Stream};
use futures_util::future::try_join_all;
use nix::sys::signal::Signal;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(crate) const PAUSE: NemesisRow<PauseParameters> = NemesisRow {
    description: NemesisDescription {
        aims: AIMS,
        by_hook: true,
        ..NemesisDescription::new(
            "pause",
            "stops clients or servers (SIGSTOP) for longer than the TTL, once or in many short stops, then wakes them",
        )
    },
    draw: |Drawing { topology, random, .. }| {
        // Mostly clients: the debate is about the stopped holder. More than half of them, to hit a holder
        // mostly, but never all, so that another client can take the lock meanwhile.
        let clients = topology.clients.len();
        let on = if clients > 1 && (topology.servers.is_empty() || random.random_bool(0.8)) {
            subset(&topology.clients, random.random_range(clients.div_ceil(2)..clients), random)
        } else if !topology.servers.is_empty() {
            subset(&topology.servers, random.random_range(1..=topology.servers.len().div_ceil(2)), random)
        } else {
            return None;
        };
        Some(stopped_for_long(on, topology, random))
    },
    // A stop at a stretch: between two stops of a strobe, a holder would learn that its lock is gone.
    adapt_to_aim: |drawn, _, _| Draw { parameters: PauseParameters::default(), ..drawn },
    prepare,
};

/// The others choose a new leader meanwhile; the old one wakes and still believes that it leads.
pub(crate) const LEADER_PAUSE: NemesisRow<PauseParameters> = NemesisRow {
    description: NemesisDescription {
        kind: Some("pause"),
        servers_only: true,
        aims: const { &[Aim::at(Role::Leader, &[Moment::Granted, Moment::Collecting]).lasting(LENGTHS)] },
        ..NemesisDescription::new(
            "leader-pause",
            "stops the leader for longer than the TTL, then wakes it; without a leader (Redlock), one drawn server",
        )
    },
    draw: |Drawing { topology, random, .. }| {
        Some(stopped_for_long(topology.draw_leader(random)?, topology, random))
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare,
};

fn stopped_for_long(on: Vec<String>, topology: &Topology, random: &mut Stream) -> Draw<PauseParameters> {
    let length = around_ttl(topology.ttl, AROUND.0, AROUND.1, random);
    Draw { on, length, parameters: PauseParameters::draw(random) }
}

/// The holder that goes on where it was stopped; and servers that were stopped while they had the say.
const AIMS: &[Aim] = &[
    Aim::at(Role::Holder, &[Moment::BeforeWrite]).lasting(AWAITING).until(&[Moment::Read]),
    // In the queue behind that grant, so that its turn comes while it is stopped.
    Aim::at(Role::Waiter, &[Moment::GrantedForLong]).lasting(LENGTHS),
    Aim::at(Role::Holder, &[Moment::GrantedForLong]).lasting(AWAITING).until(&[Moment::Granted]),
    Aim::at(Role::Holder, &[Moment::Granted, Moment::BeforeWrite, Moment::Releasing]).lasting(LENGTHS),
    Aim::at(Role::Waiter, &[Moment::AcquirePoint]).lasting(AWAITING).until(&[Moment::Read]),
    Aim::at(Role::Holder, &[Moment::HolderPoint]).lasting(AWAITING).until(&[Moment::Read]),
    Aim::at(Role::Granting, &[Moment::Granted, Moment::Collecting]).lasting(LENGTHS),
];

/// Shortest and longest pause until another process comes in, in TTLs: leases may end half a TTL late.
const AWAITING: (f64, f64) = (1.8, 3.0);

/// Shortest and longest pause of another aimed fault, in TTLs.
const LENGTHS: (f64, f64) = (1.3, 2.5);

/// Shortest and longest pause, in TTLs.
const AROUND: (f64, f64) = (1.2, 2.0);

const STROBES: f64 = 0.25;

/// Without either, one stop; with both, a strobe: stopped and running in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseParameters {
    stop_ms: Option<u64>,
    run_ms: Option<u64>,
}

impl PauseParameters {
    fn draw(random: &mut Stream) -> PauseParameters {
        if !random.random_bool(STROBES) {
            return PauseParameters::default();
        }
        let (stop_ms, run_ms) = (random.random_range(20..=200), random.random_range(5..=50));
        PauseParameters { stop_ms: Some(stop_ms), run_ms: Some(run_ms) }
    }
}

fn prepare(on: &[String], parameters: PauseParameters) -> Result<Box<dyn Fault>, Refusal> {
    let key = if parameters.stop_ms.is_some() { "stop_ms" } else { "run_ms" };
    let strobe = match (parameters.stop_ms, parameters.run_ms) {
        (None, None) => None,
        (Some(0), _) | (_, Some(0)) => {
            return Err(Refusal::at(key, "`stop_ms` and `run_ms` must be longer than 0"));
        }
        (Some(stop_ms), Some(run_ms)) => Some(Strobe { stop_ms, run_ms }),
        _ => return Err(Refusal::at(key, "a strobe takes both `stop_ms` and `run_ms`")),
    };
    Ok(Box::new(StoppedTargets::new(on, strobe)))
}

pub(crate) struct StoppedTargets {
    on: Vec<String>,
    strobe: Option<Strobe>,
    pids: Vec<(String, i32)>,
    strobing: Option<Strobing>,
    by_hook: ByHook,
}

impl StoppedTargets {
    pub(crate) fn new(on: &[String], strobe: Option<Strobe>) -> StoppedTargets {
        StoppedTargets {
            on: on.to_vec(),
            strobe,
            pids: Vec::new(),
            strobing: None,
            by_hook: ByHook::new(HookAction::Stop),
        }
    }
}

#[async_trait]
impl Fault for StoppedTargets {
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        let targets = and(&self.on);
        let again = self.strobe.map_or(String::new(), |Strobe { stop_ms, run_ms }| {
            format!(" again and again, for {stop_ms} ms with {run_ms} ms in between")
        });
        let effect = if self.strobe.is_some() { FaultEffect::Delays } else { FaultEffect::Stops };
        FaultDescription {
            effects: vec![effect],
            // Between two stops of a strobe its targets run.
            takes_down: self.strobe.is_none(),
            keeps_memory: true,
            sentence: by_hook::sentence(observed, &self.on, "stopped", &format!("stopped (SIGSTOP){again}")),
            healing: format!("{targets} ran again"),
            label: format!("{} stopped", self.on.join(" ")),
            summary: "processes or servers were stopped for a while".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let (existing, own) = context.split_existing(&self.on);
        let mut seen = self.by_hook.inject(&existing, context).await?;
        for target in &own {
            self.pids.push((target.clone(), context.pid(target)?));
        }
        let states = try_join_all(self.pids.iter().map(|(target, pid)| async move {
            stop(context.node(target)?.as_ref(), *pid).await?;
            let state = context.await_state(target, *pid, |state| state == Some('T')).await?;
            Ok::<_, FaultError>((target.clone(), state))
        }))
        .await?;
        for (target, state) in states {
            seen.effective |= state == Some('T');
            seen.observed.insert(target, json!({"state": state}));
        }
        if let Some(strobe) = self.strobe {
            let nodes = self
                .pids
                .iter()
                .map(|(target, pid)| Ok((target.clone(), *pid, context.node(target)?.clone())));
            self.strobing = Some(Strobing::begin(strobe, nodes.collect::<Result<_, FaultError>>()?));
        }
        Ok(seen)
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let mut strobed = match self.strobing.take() {
            Some(strobing) => strobing.end().await,
            None => Map::new(),
        };
        let states = try_join_all(self.pids.iter().map(|(target, pid)| async move {
            let node = context.node(target)?;
            // A process that was killed while it was stopped has nothing to be woken.
            if node.state(*pid).await?.is_some() {
                node.signal_tree(*pid, Signal::SIGCONT as i32).await?;
            }
            let state = context.await_state(target, *pid, |state| state != Some('T')).await?;
            if state == Some('T') {
                return Err(FaultError::Other(format!(
                    "{target} (process {pid}) is still stopped after SIGCONT"
                )));
            }
            Ok((target.clone(), json!({"state": state})))
        }))
        .await?;
        let by_hook = self.by_hook.heal(context).await?;
        let mut healed: Map<String, Value> = states.into_iter().chain(by_hook).collect();
        for (target, state) in &mut healed {
            if let Some(Value::Object(stops)) = strobed.remove(target) {
                state.as_object_mut().into_iter().for_each(|state| state.extend(stops.clone()));
            }
        }
        Ok(Value::Object(healed))
    }
}
