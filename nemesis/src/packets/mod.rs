//! Faults of packets and connections.

pub(crate) mod delay;
pub(crate) mod dns;
pub(crate) mod duplicate;
pub(crate) mod groups;
pub(crate) mod half_open;
pub(crate) mod loss;
pub(crate) mod names_tool;
pub(crate) mod network;
pub(crate) mod network_fault;
pub(crate) mod network_parameters;
pub(crate) mod packets_tool;
pub(crate) mod partition;
pub(crate) mod reorder;
pub(crate) mod reset;
pub(crate) mod slow;
pub(crate) mod stall;
