//! Faults of clocks.

pub mod clock_by_hand;
pub(crate) mod clock_drift;
pub(crate) mod clock_fault;
pub(crate) mod clock_freeze;
pub(crate) mod clock_jump;
pub(crate) mod clock_mechanism;
pub(crate) mod clock_schedule;
pub(crate) mod clock_strobe;
pub(crate) mod clock_tool;
pub(crate) mod motion;
