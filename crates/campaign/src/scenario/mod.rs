//! Scenarios: directed runs with an expected outcome, played once or several times.

mod campaign;
mod junit;
mod page;
mod play;
mod repetitions;
mod report;
mod table;
#[cfg(test)]
mod tests;

pub use campaign::{ScenarioCampaign, ScenarioPlay, ScenarioRequest, Shown, merge};
pub use junit::suite;
pub use page::{markdown, pictures};
pub use play::PlayOptions;
pub use repetitions::exit_code;
pub use report::{Ending, Report, RunReport};
pub use table::{closing, list, table};
