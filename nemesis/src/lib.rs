//! What goes wrong in a test, when, and to whom. One file a nemesis; [`registry`] names them all.

mod clock_drift;
mod clock_freeze;
mod clock_jump;
mod clock_strobe;
mod clock_tool;
mod clocks;
mod delay;
#[cfg(test)]
mod descriptions;
mod disk_full;
mod disk_slow;
mod disk_tool;
mod disks;
mod duplicate;
mod failover;
mod kill;
mod leader;
mod leader_kill;
mod leader_pause;
mod loss;
mod network;
mod packets_tool;
mod partition;
mod pause;
mod plan;
mod power_loss;
mod reorder;
mod slow;
mod supervisor;
mod swarm;
#[cfg(test)]
mod testing;
pub mod tools;
mod trigger;
mod world;

pub use clock_tool::ClockTool;
pub use clocks::{Clock, Faked, Motions, fake_clocks, moved_clocks, prepare_clock};
pub use disk_tool::{DiskTool, prepare_disk};
pub use leader::LEADER;
pub use packets_tool::PacketsTool;
pub use partition::{Groups, OneWay, parse_partition};
pub use plan::{Plan, Strike, draw};
pub use supervisor::supervise;
pub use swarm::{Enabled, SWARM, swarm};
pub use trigger::Trigger;
pub use world::{Clients, Leadership, Running, World};

use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::{FaultDescription, Stream};
use serde_json::{Map, Value};
use std::num::NonZeroU32;
use std::time::Duration;

/// Something that goes wrong: how it is drawn, and how one strike of it becomes a fault.
pub trait Nemesis: Send + Sync {
    /// As on the command line.
    fn name(&self) -> &'static str;
    /// One line for `fencepost list`.
    fn about(&self) -> &'static str;
    /// What it does to a node, in a word. Two faults of one kind on one node at a time would undo each other, and are
    /// refused. None where they add up, as those of the network do.
    fn kind(&self) -> Option<&'static str> {
        Some(self.name())
    }
    /// Whether it holds a server down until its healing.
    fn takes_down(&self) -> bool {
        false
    }
    /// What a driver must offer for it.
    fn needs(&self) -> &'static [Capability];
    /// Of these a driver must offer one at least; none: nothing more is needed.
    fn needs_one_of(&self) -> &'static [Capability] {
        &[]
    }

    /// What it needs and these capabilities lack, in words; none where it can run.
    fn unmet(&self, offered: &[Capability]) -> Option<String> {
        if let Some(missing) = self.needs().iter().find(|need| !offered.contains(need)) {
            return Some(format!("{missing:?}"));
        }
        let one_of = self.needs_one_of();
        let met = one_of.is_empty() || one_of.iter().any(|need| offered.contains(need));
        (!met).then(|| format!("one of {one_of:?}"))
    }
    /// Nodes that a dose names besides the targets, so that an unknown one is refused before anything starts.
    fn names_in(&self, _dose: &Value) -> Vec<String> {
        Vec::new()
    }
    /// Whether each server's data must lie on a disk that can be broken ([`prepare_disk`]), from before its start.
    fn prepares_disks(&self) -> bool {
        false
    }
    /// What a dose does to clocks, or why it cannot be read; none for a nemesis that leaves clocks alone.
    fn motions(&self, _dose: &Value) -> Option<Result<Motions, String>> {
        None
    }
    /// Whether a drawn strike waits for the next acquire, since it matters only to whoever holds the lock just then.
    fn awaits_holder(&self) -> bool {
        false
    }
    /// Draws whom to strike, how long and how hard. None where this scene offers nothing to strike.
    fn draw(&self, scene: &Scene, settings: &Settings, random: &mut Stream) -> Option<Aim>;
    /// Makes a strike ready; refuses a dose that it does not understand, in one sentence.
    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String>;
}

/// One strike, ready to be injected. The runner keeps it before it injects it, and heals it whatever happens.
#[async_trait]
pub trait Fault: Send {
    /// Makes it happen and looks, from inside the targets, what did happen. An error means that it counts as not
    /// injected; healing still follows, since part of it may have been done.
    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError>;
    /// Undoes what `inject` did, and nothing else, and looks whether it is undone.
    async fn heal(&mut self, world: &World) -> Result<Value, FaultError>;
    /// What the fault says about itself in its events. `observed` is what `inject` saw; empty before it is done.
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription;
}

/// What was observed of an injected fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Per target, in the fault's own terms.
    pub observed: Map<String, Value>,
    /// Whether anything was seen to change.
    pub effective: bool,
}

/// Why a fault could not be injected or healed: one sentence that names the target.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    #[error(transparent)]
    Cluster(#[from] fencepost_cluster::ClusterError),
    #[error("{0}")]
    Other(String),
}

/// Whom there is to strike.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub servers: Vec<String>,
    pub clients: Vec<String>,
    /// What the lock protects, where the workload has it.
    pub storage: Option<String>,
    /// Whether one of the servers leads, so that a strike can be aimed at [`LEADER`].
    pub has_leader: bool,
    pub ttl: Duration,
}

impl Scene {
    /// Refuses a target that is nobody here.
    pub fn check_target(&self, name: &str) -> Result<(), String> {
        match name {
            LEADER if self.has_leader => Ok(()),
            LEADER => Err(format!(
                "none of these servers leads, each stands for itself; name one ({})",
                self.servers.join(", ")
            )),
            _ => self.check_name(name),
        }
    }

    /// Refuses a name that is nobody's here.
    pub fn check_name(&self, name: &str) -> Result<(), String> {
        let known = || self.servers.iter().chain(&self.clients).chain(&self.storage);
        if known().any(|known| known == name) {
            return Ok(());
        }
        let all: Vec<&str> = known().map(String::as_str).collect();
        Err(format!("there is no node {name} in this run (there are: {})", all.join(", ")))
    }
}

/// What the command line says about nemeses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Length of the main phase.
    pub time_limit: Duration,
    /// Mean time between the end of a strike and the beginning of the next of the same nemesis.
    pub interval: Duration,
    /// Which clocks go wrong.
    pub clock: Clock,
    /// Size of a clock's jumps; none: drawn on a logarithmic scale from half to three hundred times the TTL.
    pub clock_amplitude: Option<Duration>,
    /// By how much a clock drifts, in parts per million; none: drawn.
    pub clock_drift_ppm: Option<NonZeroU32>,
    /// How long a server that was killed or lost its power stays down; none: drawn.
    pub restart_after: Option<Duration>,
    /// What survives a loss of power of what was not fsynced; none: nothing.
    pub torn_writes: Option<tools::disk::Torn>,
    /// Whom a partition cuts off from whom; none: drawn.
    pub partition: Option<Groups>,
}

/// Whom a strike hits, how long and how hard.
#[derive(Clone, Debug, PartialEq)]
pub struct Aim {
    pub on: Vec<String>,
    pub length: Duration,
    pub dose: Value,
}

/// Every nemesis. `none` is the absence of any, and therefore not in it.
pub fn registry() -> &'static [&'static dyn Nemesis] {
    &[
        &clock_jump::CLOCK_JUMP,
        &clock_drift::CLOCK_DRIFT,
        &clock_strobe::CLOCK_STROBE,
        &clock_freeze::CLOCK_FREEZE,
        &pause::Pause,
        &partition::Partition,
        &delay::DELAY,
        &loss::LOSS,
        &reorder::REORDER,
        &duplicate::DUPLICATE,
        &slow::SLOW,
        &kill::Kill,
        &power_loss::PowerLoss,
        &failover::Failover,
        &leader_kill::LeaderKill,
        &leader_pause::LeaderPause,
        &disk_full::DISK_FULL,
        &disk_slow::DISK_SLOW,
    ]
}

/// The nemesis of that name.
pub fn find(name: &str) -> Option<&'static dyn Nemesis> {
    registry().iter().copied().find(|nemesis| nemesis.name() == name)
}

/// A length between `low` and `high` times the TTL.
pub(crate) fn around_ttl(ttl: Duration, low: f64, high: f64, random: &mut Stream) -> Duration {
    use rand::RngExt;
    ttl.mul_f64(random.random_range(low..=high))
}

/// A random subset of `size` of the names, in their order.
pub(crate) fn subset(names: &[String], size: usize, random: &mut Stream) -> Vec<String> {
    let mut chosen = rand::seq::index::sample(random, names.len(), size.min(names.len())).into_vec();
    chosen.sort_unstable();
    chosen.into_iter().map(|index| names[index].clone()).collect()
}
