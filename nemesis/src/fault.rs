//! One fault, ready to be injected.

use crate::context::FaultContext;
pub use crate::fault_error::FaultError;
use crate::motion::Motions;
use async_trait::async_trait;
use fencepost_history::FaultDescription;
use serde_json::{Map, Value};

/// One fault, ready to be injected. The engine keeps it before it injects it, and heals it whatever happens.
#[async_trait]
pub trait Fault: Send {
    /// What the fault says about itself in its events. `observed` is what `inject` saw; empty before it is
    /// done.
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription;
    /// Injects it, and looks from inside the targets at what happened. An error means that it counts as not
    /// injected; healing still follows, since part of it may have been done.
    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError>;
    /// Undoes what `inject` did, and nothing else, and looks whether it is undone.
    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError>;
    /// Nodes that its parameters name besides the targets, so that an unknown one is refused before anything
    /// starts.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    /// What it does to clocks; none for a fault that leaves them alone.
    fn motions(&self) -> Option<Motions> {
        None
    }
}

/// What was observed of an injected fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Per target, in the fault's own terms.
    pub observed: Map<String, Value>,
    /// Whether anything was observed to change.
    pub effective: bool,
}
