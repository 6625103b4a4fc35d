//! `power-loss`: servers lose their power, and with it everything that they had not fsynced.
//!
//! SIGKILL alone is no such thing: the kernel's page cache outlives the process, and with it every write. Here the
//! servers' data lie on a disk of Fencepost's own (see [`crate::tools::disk`]), which then forgets what no fsync made
//! durable.

use crate::disks::break_disks;
use crate::plan::millis;
use crate::supervisor;
use crate::tools::disk::Torn;
use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::prose::{and, was};
use fencepost_history::{FaultDescription, Stream};
use futures_util::future::{join_all, try_join_all};
use nix::sys::signal::Signal;
use rand::RngExt;
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
    /// The power comes back, fails again so many milliseconds after a server has begun to write, and only then is back
    /// for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    flicker_ms: Option<u32>,
    /// How often it does so; once, if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    flickers: Option<u32>,
    /// A supervisor in the node starts the server again once the node's wall clock says that so many milliseconds have
    /// passed (the strike's own length then only says when it may begin to).
    #[serde(skip_serializing_if = "Option::is_none")]
    supervised_ms: Option<u32>,
}

/// How long the power stays once a server writes again, in milliseconds: a lock has been given out then, hardly fsynced
/// where that is done once a second, and its holder is not done yet.
const FLICKER_MS: RangeInclusive<u32> = 2..=50;

/// The power stays no longer than this, whether a server writes or not.
const WRITES_WITHIN: Duration = Duration::from_millis(500);

/// How often the power flickers. Each cut is a chance, none a certainty: a holder may be done before the server is back.
const TIMES: RangeInclusive<u32> = 5..=10;

impl Nemesis for PowerLoss {
    fn name(&self) -> &'static str {
        "power-loss"
    }

    fn about(&self) -> &'static str {
        "servers lose their power and whatever they had not fsynced, and start again"
    }

    fn takes_down(&self) -> bool {
        true
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
        let times = random.random_range(TIMES);
        let seed = random.random();
        let dose = Dose {
            torn: settings.torn_writes,
            seed: settings.torn_writes.map(|_| seed),
            flicker_ms: flickers.then_some(flicker_ms),
            flickers: flickers.then_some(times),
            supervised_ms: None,
        };
        Some(Aim { on, length, dose: json!(dose) })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let dose = match &strike.dose {
            Value::Null => Dose::default(),
            dose => Dose::deserialize(dose).map_err(|error| {
                format!("its dose is not understood: {error} (it takes torn = \"prefix\" or \"sectors\", seed, flicker_ms, flickers and supervised_ms)")
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
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let (targets, was) = (and(&self.on), was(&self.on));
        let sentence = format!(
            "{targets} lost power: the process was killed, and what its disk had not fsynced dropped"
        );
        FaultDescription {
            takes_down: true,
            sentence,
            healing: format!("{targets} {was} started again"),
            label: format!("{} lost power", self.on.join(" ")),
            summary: "servers lost their power, and what they had not fsynced".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        let observed = self.cut(world).await?;
        if let Some(down_ms) = self.dose.supervised_ms {
            try_join_all(self.down.iter().map(|target| supervisor::begin(world, target, down_ms))).await?;
        }
        // Both were seen: the process is gone, and the disk says what it had and what it dropped. That this may be
        // nothing is what a server that fsyncs before it answers is for.
        Ok(Seen { effective: !self.down.is_empty(), observed })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        if let Some(down_ms) = self.dose.supervised_ms {
            try_join_all(self.down.iter().map(|target| supervisor::wait(world, target, down_ms))).await?;
        }
        let mut lost_again: Map<String, Value> = Map::new();
        let flicker_ms = self.dose.flicker_ms.into_iter();
        for flicker_ms in flicker_ms.cycle().take(self.dose.flickers.unwrap_or(1) as usize) {
            self.restart(world).await?;
            // Nothing written within that time: then the power fails without it.
            let _ = tokio::time::timeout(WRITES_WITHIN, self.await_writes(world)).await;
            tokio::time::sleep(Duration::from_millis(flicker_ms.into())).await;
            for (target, lost) in self.cut(world).await? {
                add(lost_again.entry(target).or_insert_with(|| json!({})), &lost);
            }
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
    /// Waits until one of the servers has written to its disk since the last cut.
    async fn await_writes(&self, world: &World) -> Result<(), FaultError> {
        loop {
            let seen = break_disks(world, &self.on, &json!({"do": "look"})).await?;
            if seen.values().any(|seen| seen["written"].as_u64() > Some(0)) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

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

/// Sums up what was lost, number by number; of everything else the latest counts.
fn add(sum: &mut Value, lost: &Value) {
    for (name, field) in lost.as_object().into_iter().flatten() {
        sum[name] = match (sum[name].as_u64(), field.as_u64()) {
            (Some(before), Some(now)) => json!(before + now),
            _ => field.clone(),
        };
    }
}

async fn kill(world: &World, target: &str, pid: i32) -> Result<(), FaultError> {
    let node = world.node(target)?;
    node.signal(pid, Signal::SIGKILL as i32).await?;
    Ok(node.await_exit(pid, Duration::from_secs(5)).await?)
}
