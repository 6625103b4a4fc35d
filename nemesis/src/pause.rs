//! `pause`: stops clients or servers with SIGSTOP, for longer than the TTL, and wakes them with SIGCONT.
//!
//! This is the long garbage collection, the laptop lid, the migrated virtual machine: the process is gone for a
//! while and does not know it.

use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use futures_util::future::try_join_all;
use nix::sys::signal::Signal;
use rand::Rng;
use serde_json::{Map, Value, json};

pub(crate) struct Pause;

impl Nemesis for Pause {
    fn name(&self) -> &'static str {
        "pause"
    }

    fn about(&self) -> &'static str {
        "stops clients or servers (SIGSTOP) for longer than the TTL, then wakes them (SIGCONT)"
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
        Some(Aim { on, length: around_ttl(scene.ttl, 1.2, 2.0, random), dose: Value::Null })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        Ok(Box::new(Stopped { on: strike.on.clone(), pids: Vec::new() }))
    }
}

struct Stopped {
    on: Vec<String>,
    pids: Vec<(String, i32)>,
}

#[async_trait]
impl Fault for Stopped {
    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        for target in &self.on {
            self.pids.push((target.clone(), world.pid(target)?));
        }
        let states = try_join_all(self.pids.iter().map(|(target, pid)| async move {
            world.node(target)?.signal(*pid, Signal::SIGSTOP as i32).await?;
            let state = world.await_state(target, *pid, |state| state == Some('T')).await?;
            Ok::<_, FaultError>((target.clone(), state))
        }))
        .await?;
        let effective = states.iter().any(|(_, state)| *state == Some('T'));
        let observed = states
            .into_iter()
            .map(|(target, state)| (target, json!({"state": state})))
            .collect::<Map<_, _>>();
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
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
        Ok(Value::Object(states.into_iter().collect()))
    }
}
