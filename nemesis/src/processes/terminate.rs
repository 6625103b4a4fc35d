//! `terminate`: asks servers or clients to end (SIGTERM), as an operator or a deployment does, and starts
//! servers again; `rolling` does that to all servers in turn, as an upgrade does. A server may write down
//! what it knows before it ends. A client may free its lock, or not: nothing is assumed.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation, heal_each};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow, NoParameters};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::{around_ttl, millis};
use crate::plan::roles::Role;
use crate::processes::kill::{DOWN, KILL, Killed, end, ended_by_this, too_slow};
use async_trait::async_trait;
use fencepost_history::prose::{and, was};
use fencepost_history::{FaultDescription, FaultEffect};
use nix::sys::signal::Signal;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long a server may take to serve again before the next one is asked to end.
const BACK: Duration = Duration::from_secs(15);

pub(crate) const TERMINATE: NemesisRow<NoParameters> = NemesisRow {
    description: NemesisDescription {
        kind: Some("kill"),
        by_hook: false,
        name: "terminate",
        about: "asks servers or clients to end (SIGTERM), and starts servers again; a process that does not end in 5 s is killed",
        ..KILL.description
    },
    draw: KILL.draw,
    adapt_to_aim: KILL.adapt_to_aim,
    prepare: |on, NoParameters {}| Ok(Box::new(Killed::new(on, Signal::SIGTERM))),
};

/// Every server that granted a lock which outlasts the first of them.
const AIMS: &[Aim] = &[Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::Collecting]).lasting(DOWN)];

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollingParameters {
    /// Time from one server that serves again to the next one that is asked to end.
    #[serde(default)]
    rest_ms: u64,
}

pub(crate) const ROLLING: NemesisRow<RollingParameters> = NemesisRow {
    description: NemesisDescription {
        kind: Some("kill"),
        takes_down: true,
        servers_only: true,
        aims: AIMS,
        ..NemesisDescription::new(
            "rolling",
            "restarts all servers in turn (SIGTERM), each once the one before it serves again, as an upgrade does",
        )
    },
    draw: |Drawing { topology, random, .. }| {
        let on = topology.servers.clone();
        let rest = if random.random_bool(0.5) {
            Duration::ZERO
        } else {
            around_ttl(topology.ttl, 0.02, 0.3, random)
        };
        let parameters = RollingParameters { rest_ms: millis(rest) };
        (!on.is_empty()).then_some(Draw { on, length: Duration::from_millis(1), parameters })
    },
    // Not a majority of them: all that know of the lock come in turn.
    adapt_to_aim: |drawn, _, _| Draw { on: vec![Role::Granting.name().to_owned()], ..drawn },
    prepare: |on, parameters| Ok(Box::new(Rolling { on: on.to_vec(), parameters })),
};

/// Servers that end and are started again one after the other.
struct Rolling {
    on: Vec<String>,
    parameters: RollingParameters,
}

impl Rolling {
    async fn back(context: &FaultContext, target: &str) -> Result<(), FaultError> {
        context.restart(target).await?;
        let served = tokio::time::timeout(BACK, context.await_serving(target)).await;
        let late = || FaultError::Other(format!("{target} does not serve within {} s", BACK.as_secs()));
        served.map_err(|_| late())?
    }
}

#[async_trait]
impl Fault for Rolling {
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        let (targets, was) = (and(&self.on), was(&self.on));
        FaultDescription {
            // One at a time is down, and all run again as the injection is over.
            effects: vec![FaultEffect::Kills, FaultEffect::Delays],
            sentence: format!("{targets} {was} restarted in turn (SIGTERM){}", too_slow(observed)),
            healing: format!(
                "{targets} had {} restarted",
                if self.on.len() == 1 { "been" } else { "all been" }
            ),
            label: format!("{} restarted", self.on.join(" ")),
            summary: "servers were restarted in turn".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let mut observed = Map::new();
        for target in &self.on {
            if !observed.is_empty() {
                tokio::time::sleep(Duration::from_millis(self.parameters.rest_ms)).await;
            }
            let mut seen = end(context, target, Signal::SIGTERM).await?;
            Self::back(context, target).await?;
            seen["restarted"] = json!(context.pid(target)?);
            observed.insert(target.clone(), seen);
        }
        Ok(Observation { effective: observed.values().all(ended_by_this), observed })
    }

    /// What was cut off in the middle has a server that is down.
    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        heal_each(&self.on, |target| async move {
            if context.pid(target).is_err() {
                Self::back(context, target).await?;
            }
            Ok(json!({"pid": context.pid(target)?}))
        })
        .await
    }
}
