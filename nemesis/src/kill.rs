//! `kill`: ends servers with SIGKILL and starts them again.
//!
//! The page cache survives, so what was written but not fsynced is still there: this is a crash of the process, not
//! a loss of power.

use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::prose::{and, was};
use fencepost_history::{FaultDescription, Stream};
use futures_util::future::try_join_all;
use nix::sys::signal::Signal;
use rand::RngExt;
use serde_json::{Map, Value, json};
use std::time::Duration;

pub(crate) struct Kill;

impl Nemesis for Kill {
    fn name(&self) -> &'static str {
        "kill"
    }

    fn about(&self) -> &'static str {
        "ends servers with SIGKILL and starts them again (clients, in a plan, for good); the page cache survives"
    }

    fn takes_down(&self) -> bool {
        true
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Signal]
    }

    fn draw(&self, scene: &Scene, settings: &Settings, random: &mut Stream) -> Option<Aim> {
        if scene.servers.is_empty() {
            return None;
        }
        let on = subset(&scene.servers, random.random_range(1..=scene.servers.len()), random);
        Some(Aim { on, length: downtime(scene, settings, random), dose: Value::Null })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        Ok(Box::new(Killed::new(&strike.on)))
    }
}

/// How long servers stay down that were killed.
pub(crate) fn downtime(scene: &Scene, settings: &Settings, random: &mut Stream) -> Duration {
    // Half of them restart at once, as a supervisor would do it: whoever forgot its locks then is asked too soon.
    let drawn = if random.random_bool(0.5) {
        Duration::from_millis(1)
    } else {
        around_ttl(scene.ttl, 0.05, 0.5, random)
    };
    settings.restart_after.unwrap_or(drawn)
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

    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        let mut observed = Map::new();
        for target in &self.on {
            let (node, pid) = (world.node(target)?, world.pid(target)?);
            self.down.push(target.clone());
            node.signal(pid, Signal::SIGKILL as i32).await?;
            node.await_exit(pid, Duration::from_secs(5)).await?;
            let state = node.state(pid).await?;
            observed.insert(target.clone(), json!({"pid": pid, "gone": state.is_none()}));
        }
        let effective = observed.values().any(|seen| seen["gone"] == true);
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        let pids = try_join_all(self.down.iter().map(|target| async move {
            // Nobody starts a client again: what it knew died with it.
            if world.server_address(target).is_none() {
                return Ok((target.clone(), json!({"gone": true})));
            }
            if world.pid(target).is_err() {
                world.restart(target).await?;
            }
            Ok::<_, FaultError>((target.clone(), json!({"pid": world.pid(target)?})))
        }))
        .await?;
        Ok(Value::Object(pids.into_iter().collect()))
    }
}
