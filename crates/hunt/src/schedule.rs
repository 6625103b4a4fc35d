//! What is searched, mutated and shrunk: one run's options and its plan of faults.

use fencepost_engine::{BadUsage, RunOptions, RunSpec};
use fencepost_nemesis::Plan;

/// A run that could be carried out: its options with a seed, and its faults. Two plays of one schedule have the same
/// faults and the same choices of every process; the interleaving on real servers differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub options: RunOptions,
    pub plan: Plan,
}

impl Schedule {
    /// The run, validated.
    ///
    /// # Errors
    /// One sentence: what cannot work, and what would.
    pub fn spec(&self) -> Result<RunSpec, BadUsage> {
        RunSpec::with_plan(self.options.clone(), self.plan.clone())
    }
}
