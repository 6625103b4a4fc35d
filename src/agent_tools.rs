//! The tools that faults need inside a node, given to each agent.

use fencepost_cluster::agent::Tool;

/// One line a tool.
pub fn all() -> Vec<Box<dyn Tool>> {
    vec![Box::new(fencepost_nemesis::ClockTool)]
}
