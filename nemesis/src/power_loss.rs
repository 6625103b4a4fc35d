//! `power-loss`: servers lose their power, and with it everything that they had not fsynced.
//!
//! SIGKILL alone is no such thing: the kernel's page cache outlives the process, and with it every write. Here the
//! servers' data lie on a disk of Fencepost's own (see [`crate::tools::disk`]), which then forgets what no fsync made
//! durable.

use crate::disks::break_disks;
use crate::plan::millis;
use crate::tools::disk::Torn;
use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use futures_util::future::{join_all, try_join_all};
use nix::sys::signal::Signal;
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) struct PowerLoss;

/// What a strike does to the disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Dose {
    /// How much of what was not fsynced survives by chance; nothing, if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    torn: Option<Torn>,
    /// Decides what survives.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    /// The power comes back, fails once more after so many milliseconds, and only then is back for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    flicker_ms: Option<u32>,
}

/// How long the power stays between two cuts, in milliseconds.
const FLICKER_MS: RangeInclusive<u32> = 50..=250;

impl Nemesis for PowerLoss {
    fn name(&self) -> &'static str {
        "power-loss"
    }

    fn about(&self) -> &'static str {
        "servers lose their power and whatever they had not fsynced, and start again"
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Signal, Capability::Fuse]
    }

    fn prepares_disks(&self) -> bool {
        true
    }

    fn draw(&self, scene: &Scene, settings: &Settings, random: &mut Stream) -> Option<Aim> {
        if scene.servers.is_empty() {
            return None;
        }
        let on = subset(&scene.servers, random.random_range(1..=scene.servers.len()), random);
        // Back at once: whoever held a lock still believes that he does. Back only after the TTL: every lock has ended.
        let drawn = match random.random_range(0..8) {
            0 => Duration::ZERO,
            1 => around_ttl(scene.ttl, 0.05, 0.9, random),
            _ => around_ttl(scene.ttl, 1.05, 1.5, random),
        };
        let length = settings.restart_after.unwrap_or(drawn);
        // Outages come in bursts, and the second cut finds the most to take: a server that has just given out its
        // first locks, and that remembers none from before. It ends well before the next strike begins.
        let flicker_ms = random.random_range(FLICKER_MS).min(millis(settings.interval) as u32 / 4);
        let flickers = random.random_bool(0.9) && length > scene.ttl;
        let seed = random.random();
        let dose = Dose {
            torn: settings.torn_writes,
            seed: settings.torn_writes.map(|_| seed),
            flicker_ms: flickers.then_some(flicker_ms),
        };
        Some(Aim { on, length, dose: json!(dose) })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let dose = match &strike.dose {
            Value::Null => Dose::default(),
            dose => Dose::deserialize(dose).map_err(|error| {
                format!("its dose is not understood: {error} (it takes torn = \"prefix\" or \"sectors\", seed, and flicker_ms)")
            })?,
        };
        Ok(Box::new(PowerLost { on: strike.on.clone(), dose, down: Vec::new() }))
    }
}

struct PowerLost {
    on: Vec<String>,
    dose: Dose,
    /// Those that ran and are to be started again.
    down: Vec<String>,
}

#[async_trait]
impl Fault for PowerLost {
    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        let observed = self.cut(world).await?;
        // Both were seen: the process is gone, and the disk says what it had and what it dropped. That this may be
        // nothing is what a server that fsyncs before it answers is for.
        Ok(Seen { effective: !self.down.is_empty(), observed })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        let mut lost_again = Map::new();
        if let Some(flicker_ms) = self.dose.flicker_ms {
            self.restart(world).await?;
            tokio::time::sleep(Duration::from_millis(flicker_ms.into())).await;
            lost_again = self.cut(world).await?;
        }
        self.restart(world).await?;
        let healed = self.down.iter().map(|target| {
            let mut seen = json!({"pid": world.pid(target)?});
            if let Some(lost) = lost_again.remove(target) {
                seen["lost_again"] = lost;
            }
            Ok((target.clone(), seen))
        });
        Ok(Value::Object(healed.collect::<Result<_, FaultError>>()?))
    }
}

impl PowerLost {
    /// Kills the servers and crashes their disks. Gives what each one lost.
    async fn cut(&mut self, world: &World) -> Result<Map<String, Value>, FaultError> {
        // One that another fault holds down has no process to lose. It is that fault's to start again.
        let running: Vec<(&String, i32)> =
            self.on.iter().filter_map(|target| Some((target, world.pid(target).ok()?))).collect();
        for (target, _) in &running {
            if !self.down.contains(target) {
                self.down.push((*target).clone());
            }
        }
        try_join_all(running.iter().map(|(target, pid)| kill(world, target, *pid))).await?;
        // Only now, when nobody can write any more.
        let args = json!({"do": "crash", "torn": self.dose.torn, "seed": self.dose.seed.unwrap_or(0)});
        break_disks(world, &self.on, &args).await
    }

    /// Starts what is down, and waits until it answers. One that fails keeps no other from being started.
    async fn restart(&self, world: &World) -> Result<(), FaultError> {
        let down = self.down.iter().filter(|target| world.pid(target).is_err());
        join_all(down.map(|target| world.restart(target))).await.into_iter().collect()
    }
}

async fn kill(world: &World, target: &str, pid: i32) -> Result<(), FaultError> {
    let node = world.node(target)?;
    node.signal(pid, Signal::SIGKILL as i32).await?;
    Ok(node.await_exit(pid, Duration::from_secs(5)).await?)
}
