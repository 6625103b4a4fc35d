use fencepost_engine::{BadUsage, DirectedScript, RunOptions, RunSpec};
use fencepost_nemesis::Plan;

/// What is searched, mutated and shrunk: a run's options with a seed, and its faults. Two plays have the same
/// faults and the same choices of every process; the interleaving on real servers differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub options: RunOptions,
    pub plan: Plan,
    /// What the clients do, step by step, where a scenario directs them; else they follow the workload.
    pub script: Option<DirectedScript>,
}

impl Schedule {
    /// A schedule whose clients follow the workload.
    pub fn new(options: RunOptions, plan: Plan) -> Schedule {
        Schedule { options, plan, script: None }
    }

    /// The validated run. The error is one sentence: what cannot work, and what would.
    pub fn spec(&self) -> Result<RunSpec, BadUsage> {
        RunSpec::with_plan(self.options.clone(), self.plan.clone())
    }
}
