//! Searches for the faults that break a lock: plays many short schedules, learns from each history, and
//! shrinks and keeps the violations that it finds.
//!
//! A [`Schedule`] is what is searched, mutated and shrunk: the options of a run and its plan of faults. A
//! [`Player`] carries it out.

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
