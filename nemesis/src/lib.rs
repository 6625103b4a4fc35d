//! Faults: which are injected into which nodes, when, and how they are healed. One file a nemesis; [`registry`] names them
//! all.

mod clock_drift;
mod clock_fault;
mod clock_freeze;
mod clock_jump;
mod clock_mechanism;
mod clock_schedule;
mod clock_strobe;
mod clock_tool;
mod context;
mod delay;
#[cfg(test)]
mod descriptions;
mod disk_fault;
mod disk_full;
mod disk_slow;
mod disk_tool;
mod draws;
mod duplicate;
mod failover;
mod fault;
mod fault_error;
mod groups;
mod kill;
mod leader_kill;
mod leader_pause;
mod loss;
mod motion;
mod nemesis;
mod network;
mod network_fault;
mod network_parameters;
mod packets_tool;
mod partition;
mod pause;
mod plan;
mod power_loss;
mod registry;
mod reorder;
mod slow;
mod supervisor;
mod swarm;
#[cfg(test)]
mod testing;
pub mod tools;
mod topology;
mod trigger;

pub use clock_mechanism::{FakedClocks, fake_clocks, moved_clocks, prepare_clock};
pub use clock_tool::{ClockLook, ClockTool};
pub use context::{Clients, FaultContext, Leadership, Readiness, RunningService};
pub use disk_tool::{DiskTool, prepare_disk};
pub use fault::{Fault, FaultError, Observation};
pub use groups::{Groups, OneWay, parse_partition};
pub use motion::{Clock, Motions};
pub use nemesis::{Draw, Nemesis, NemesisDescription, Settings};
pub use packets_tool::PacketsTool;
pub use plan::{Enabled, Plan, PlannedFault, draw};
pub use registry::{find, registry};
pub use supervisor::supervise;
pub use swarm::{SWARM, swarm};
pub use topology::{LEADER, Topology};
pub use trigger::Trigger;
