//! Faults of disks.

pub(crate) mod disk_error;
pub(crate) mod disk_fault;
pub(crate) mod disk_full;
pub(crate) mod disk_slow;
pub(crate) mod disk_tool;
pub(crate) mod power_loss;
