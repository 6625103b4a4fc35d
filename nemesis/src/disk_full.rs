//! `disk-full`: the disks of servers have no room left, for a while.

use crate::disks::{break_disks, heal_disks};
use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) struct DiskFull;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Dose {
    /// Bytes by which files may still grow: with a few left, a write can get through in part.
    bytes_left: u32,
    /// Whether overwriting fails, too, as on file systems that copy on write. Where it does not, a server that set
    /// its space aside in advance notices nothing for a while.
    copy_on_write: bool,
}

/// The most that is left, when something is.
const LEFT_MAX: u32 = 64 << 10;

impl Nemesis for DiskFull {
    fn name(&self) -> &'static str {
        "disk-full"
    }

    fn about(&self) -> &'static str {
        "the disks of some servers run full: writes fail with ENOSPC"
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
        let bytes_left = if random.random_bool(0.5) { 0 } else { random.random_range(1..=LEFT_MAX) };
        let dose = Dose { bytes_left, copy_on_write: random.random_bool(0.5) };
        Some(Aim { on, length: around_ttl(scene.ttl, 0.5, 2.0, random), dose: json!(dose) })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let dose = match &strike.dose {
            Value::Null => Dose::default(),
            dose => Dose::deserialize(dose).map_err(|error| {
                format!("its dose is not understood: {error} (it takes bytes_left and copy_on_write)")
            })?,
        };
        Ok(Box::new(Filled { on: strike.on.clone(), dose, ran: Vec::new() }))
    }
}

struct Filled {
    on: Vec<String>,
    dose: Dose,
    /// Those whose server ran: one that ends for want of room is started again.
    ran: Vec<String>,
}

#[async_trait]
impl Fault for Filled {
    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        self.ran = self.on.iter().filter(|target| world.pid(target).is_ok()).cloned().collect();
        let Dose { bytes_left, copy_on_write } = self.dose;
        let args = json!({"do": "full", "bytes_left": bytes_left, "copy_on_write": copy_on_write});
        let observed = break_disks(world, &self.on, &args).await?;
        let effective = observed.values().any(|seen| seen["after"]["full"] == true);
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        let healed = heal_disks(world, &self.on, &self.ran).await?;
        match healed.iter().find(|(_, seen)| seen["after"]["full"] == true) {
            Some((target, _)) => Err(FaultError::Other(format!("the disk of {target} is still full"))),
            None => Ok(Value::Object(healed)),
        }
    }
}
