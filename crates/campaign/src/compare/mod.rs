//! Comparisons: locks in rows, nemeses in columns, several runs of each combination.

mod folder;
mod judged_runs;
mod matrix;
mod merged;
mod play;
#[cfg(test)]
mod tests;

pub use folder::{COMPARE_JSON, lock, runs_of_unfinished};
pub use matrix::{Matrix, MatrixPlan, MatrixRun};
pub use merged::{CellRecord, CompareCampaign, combination, merge};
pub use play::{ComparePlay, begin};
