//! Faults: which are injected where and when, and how they are healed. One file a nemesis; see [`registry`].

pub mod clocks;
mod context;
#[cfg(test)]
mod descriptions;
mod disks;
#[cfg(test)]
mod effect_tests;
mod existing_servers;
mod fault;
mod fault_error;
mod fault_text;
mod nemesis;
mod options;
mod orders;
mod packets;
mod plan;
mod processes;
mod registry;
#[cfg(test)]
mod testing;
pub mod tools;

pub use clocks::clock_by_hand;
pub use clocks::clock_mechanism::{FakedClocks, fake_clocks, moved_clocks, prepare_clock};
pub use clocks::clock_tool::{ClockLook, ClockTool};
pub use clocks::motion::{Clock, Motions};
pub use context::{ClientPids, FaultContext, Leadership, Readiness, RunningService, ServerOrders};
pub use disks::disk_tool::{DiskTool, prepare_disk};
pub use existing_servers::{ExistingServers, HookAction};
pub use fault::{Fault, FaultError, Observation};
pub use fault_text::{AwaitedEvent, FAULT_KEYS, FaultEntry, fault_of_json, fault_text};
pub use fencepost_history::Refusal;
pub use nemesis::{Draw, Nemesis, NemesisDescription, NemesisSettings};
pub use options::NemesisOptions;
pub use packets::dns::name_nodes;
pub use packets::groups::{Groups, OneWay, parse_partition};
pub use packets::names_tool::NamesTool;
pub use packets::packets_tool::PacketsTool;
pub use plan::aim::{Aim, DrawnAim, Moment, OtherEnd, PossibleAim, WhichAim};
pub use plan::draw_plan::{aims, draw, draw_fault, reaches_points};
pub use plan::planned_fault::PlannedFault;
pub use plan::resolution::Resolution;
pub use plan::roles::{LEADER, Role, RoleTarget};
pub use plan::swarm::{SWARM, swarm};
pub use plan::topology::{RecipePoint, ServerFaults, Topology};
pub use plan::trigger::Trigger;
pub use plan::{Enabled, Plan};
pub use processes::by_pid::{OF_PROCESSES, ProcessFault, wake};
pub use processes::supervisor::supervise;
pub use processes::threads_tool::ThreadsTool;
pub use registry::{find, registry};
