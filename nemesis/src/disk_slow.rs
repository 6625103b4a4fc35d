//! `disk-slow`: the disks of servers take their time, as a dying disk or a neighbour's backup makes them.

use crate::disks::{break_disks, heal_disks};
use crate::plan::millis;
use crate::tools::disk::Slow;
use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use rand::Rng;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) struct DiskSlow;

impl Nemesis for DiskSlow {
    fn name(&self) -> &'static str {
        "disk-slow"
    }

    fn about(&self) -> &'static str {
        "the disks of some servers get slow: each fsync, and often each write and read, takes longer"
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Fuse]
    }

    fn prepares_disks(&self) -> bool {
        true
    }

    fn draw(&self, scene: &Scene, _: &Settings, random: &mut Stream) -> Option<Aim> {
        if scene.servers.is_empty() {
            return None;
        }
        let on = subset(&scene.servers, random.random_range(1..=scene.servers.len()), random);
        // On a logarithmic scale, from a spinning disk to one that hangs for as long as a lock lives.
        let longest_ms = (millis(scene.ttl) as f64).max(20.0);
        let fsync_ms = random.random_range(10.0_f64.ln()..=longest_ms.ln()).exp() as u64;
        let all = random.random_bool(0.5);
        let each_ms = if all { (fsync_ms / 10).max(1) } else { 0 };
        let dose = Slow { read_ms: each_ms, write_ms: each_ms, fsync_ms };
        Some(Aim { on, length: around_ttl(scene.ttl, 1.0, 3.0, random), dose: json!(dose) })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let slow = Slow::deserialize(&strike.dose).map_err(|error| {
            format!("its dose is not understood: {error} (it takes read_ms, write_ms and fsync_ms)")
        })?;
        if slow == Slow::default() {
            return Err("its dose slows nothing down: give read_ms, write_ms or fsync_ms".to_owned());
        }
        Ok(Box::new(Slowed { on: strike.on.clone(), slow, ran: Vec::new() }))
    }
}

struct Slowed {
    on: Vec<String>,
    slow: Slow,
    /// Those whose server ran: one that gives up on so slow a disk is started again.
    ran: Vec<String>,
}

#[async_trait]
impl Fault for Slowed {
    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        self.ran = self.on.iter().filter(|target| world.pid(target).is_ok()).cloned().collect();
        let Slow { read_ms, write_ms, fsync_ms } = self.slow;
        let args = json!({"do": "slow", "read_ms": read_ms, "write_ms": write_ms, "fsync_ms": fsync_ms});
        let observed = break_disks(world, &self.on, &args).await?;
        // A probe writes once and fsyncs once. That reads are slow shows in what the server met, at the healing.
        let effective = observed
            .values()
            .any(|seen| seen["after"]["ms"].as_f64().is_some_and(|ms| ms >= (write_ms + fsync_ms) as f64));
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        Ok(Value::Object(heal_disks(world, &self.on, &self.ran).await?))
    }
}
