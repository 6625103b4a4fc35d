//! Comparisons: locks in rows, nemeses in columns, several runs of each combination.

mod folder;
mod judged_runs;
mod matrix;
mod merged;
mod play;
mod start;
#[cfg(test)]
mod tests;

pub use folder::{COMPARE_JSON, runs_of_unfinished};
pub use matrix::Matrix;
pub use merged::{CellRecord, CompareCampaign, merge};
pub use play::ComparePlay;
pub use start::CompareStart;
