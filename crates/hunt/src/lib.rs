//! Searches for faults that break a lock: plays short [`Schedule`]s, learns, shrinks and keeps violations.

mod finding;
pub mod hunt;
mod player;
mod recorded;
mod replay;
mod schedule;
pub mod search;
pub mod shrink;
mod signature;

pub use finding::{KeptFinding, keep, kept_findings};
pub use player::{Player, SchedulePlayer};
pub use replay::{Replays, replay};
pub use schedule::Schedule;
pub use signature::signature;

/// One of the nemeses that there are.
pub type AnyNemesis = &'static dyn fencepost_nemesis::Nemesis;
