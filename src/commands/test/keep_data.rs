//! When the data folders of servers are kept in the folder of a run.

use clap::ValueEnum;

/// When the data of servers are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum KeepData {
    /// Where a property is violated.
    #[default]
    Violation,
    Always,
    Never,
}
