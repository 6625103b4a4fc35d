//! A campaign: many runs of one command, assigned to parts, played side by side, recorded as they end, and
//! summed up. A part that was ended early goes on where it was, and all parts merged are the campaign.
//!
//! ```text parts ─► sitting ─► compare, scenario ``` `sitting` plays the runs of any campaign; `compare` and
//! `scenario` say which, and sum them up.

pub mod compare;
mod context;
mod lines;
pub mod parts;
mod play_run;
mod repeat;
mod run_player;
pub mod scenario;
mod sitting;
#[cfg(test)]
mod testing;

pub use context::{CampaignContext, ResultsStore};
pub use lines::{LinePrinter, ProgressLine};
pub use play_run::{Played, RunPlace, play_run};
pub use repeat::Repeat;
pub use run_player::{RunPlayer, RunRequest, Servers};
pub use sitting::{Campaign, Count, PlannedRun, Sitting};
