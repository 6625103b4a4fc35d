//! `kill`: ends servers with SIGKILL and starts them again.
//!
//! The page cache survives, so what was written but not fsynced is still there: this is a crash of the process, not
//! a loss of power.

use crate::aim::{Aim, DrawnAim, Moment};
use crate::context::FaultContext;
use crate::draws::around_ttl;
use crate::fault::{Fault, FaultError, Observation};
use crate::nemesis::{Draw, NemesisDescription, NoParameters, Settings, TypedNemesis};
use crate::roles::Role;
use crate::topology::Topology;
use async_trait::async_trait;
use fencepost_history::prose::{and, was};
use fencepost_history::{FaultDescription, Stream};
use futures_util::future::try_join_all;
use nix::sys::signal::Signal;
use rand::RngExt;
use serde_json::{Map, Value, json};
use std::time::Duration;

pub(crate) struct Kill;

impl TypedNemesis for Kill {
    type Parameters = NoParameters;

    fn description(&self) -> NemesisDescription {
        let about = "ends servers with SIGKILL and starts them again (clients, in a plan, for good); the page cache survives";
        NemesisDescription { takes_down: true, aims: AIMS, ..NemesisDescription::new("kill", about) }
    }

    fn draw(
        &self,
        topology: &Topology,
        settings: &Settings,
        random: &mut Stream,
    ) -> Option<Draw<NoParameters>> {
        let on = topology.draw_servers(random)?;
        Some(Draw { on, length: downtime(topology, settings, random), parameters: NoParameters {} })
    }

    fn suit(
        &self,
        drawn: Draw<NoParameters>,
        _: &DrawnAim,
        _: &Topology,
        settings: &Settings,
        _: &mut Stream,
    ) -> Draw<NoParameters> {
        back_soon(drawn, settings)
    }

    fn prepare(&self, on: &[String], _: NoParameters) -> Result<Box<dyn Fault>, String> {
        Ok(Box::new(Killed::new(on)))
    }
}

/// Servers that granted a lock and are back, perhaps without it, before its holder is done.
const AIMS: &[Aim] = &[Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::Collecting]).lasting(DOWN)];

/// How long servers stay down in an aimed fault, in TTLs.
pub(crate) const DOWN: (f64, f64) = (0.0, 0.1);

/// The drawn length of an aimed fault that takes servers down, unless the command line says how long they stay down.
pub(crate) fn back_soon<P>(drawn: Draw<P>, settings: &Settings) -> Draw<P> {
    Draw { length: settings.restart_after.unwrap_or(drawn.length), ..drawn }
}

/// How long servers stay down that were killed.
pub(crate) fn downtime(topology: &Topology, settings: &Settings, random: &mut Stream) -> Duration {
    // Half of them restart at once, as a supervisor would do it: a server that forgot its locks is asked for them too soon.
    let drawn = if random.random_bool(0.5) {
        Duration::from_millis(1)
    } else {
        around_ttl(topology.ttl, 0.05, 0.5, random)
    };
    settings.restart_after.unwrap_or(drawn)
}

/// Ends a process of a node, and everything that it started.
pub(crate) async fn kill(context: &FaultContext, target: &str, pid: i32) -> Result<(), FaultError> {
    let node = context.node(target)?;
    node.signal_tree(pid, Signal::SIGKILL as i32).await?;
    Ok(node.await_exit(pid, Duration::from_secs(5)).await?)
}

/// Servers that are killed, and started again at the healing.
pub(crate) struct Killed {
    on: Vec<String>,
    /// Those that were killed and are to be started again.
    down: Vec<String>,
}

impl Killed {
    pub fn new(on: &[String]) -> Killed {
        Killed { on: on.to_vec(), down: Vec::new() }
    }
}

#[async_trait]
impl Fault for Killed {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let (targets, was) = (and(&self.on), was(&self.on));
        FaultDescription {
            takes_down: true,
            sentence: format!("{targets} {was} killed (SIGKILL)"),
            healing: format!("{targets} {was} started again"),
            label: format!("{} killed", self.on.join(" ")),
            summary: "servers were killed and started again".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let mut observed = Map::new();
        for target in &self.on {
            let pid = context.pid(target)?;
            self.down.push(target.clone());
            kill(context, target, pid).await?;
            let state = context.node(target)?.state(pid).await?;
            observed.insert(target.clone(), json!({"pid": pid, "gone": state.is_none()}));
        }
        let effective = observed.values().any(|state| state["gone"] == true);
        Ok(Observation { observed, effective })
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let pids = try_join_all(self.down.iter().map(|target| async move {
            // A client is not started again: what it knew ended with it.
            if context.server_address(target).is_none() {
                return Ok((target.clone(), json!({"gone": true})));
            }
            if context.pid(target).is_err() {
                context.restart(target).await?;
            }
            Ok::<_, FaultError>((target.clone(), json!({"pid": context.pid(target)?})))
        }))
        .await?;
        Ok(Value::Object(pids.into_iter().collect()))
    }
}
