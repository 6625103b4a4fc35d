//! The faults of a plan, made ready before a run begins.

use anyhow::{Result, anyhow};
use fencepost_nemesis::{Fault, Nemesis, Plan};

pub type PreparedFault = (&'static dyn Nemesis, Box<dyn Fault>);

/// The faults of a plan, ready to be injected. Errors: an unknown nemesis, or parameters that it refuses.
pub fn prepare(plan: &Plan) -> Result<Vec<PreparedFault>> {
    plan.faults
        .iter()
        .map(|planned| {
            let nemesis = fencepost_nemesis::find(&planned.fault)
                .ok_or_else(|| anyhow!("the plan names an unknown nemesis {}", planned.fault))?;
            Ok((nemesis, nemesis.prepare(&planned.on, &planned.parameters)?))
        })
        .collect()
}
