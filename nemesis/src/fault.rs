//! One fault, ready to be injected.

use crate::clocks::motion::Motions;
use crate::context::FaultContext;
pub use crate::fault_error::FaultError;
use async_trait::async_trait;
use fencepost_history::FaultDescription;
use futures_util::future::{join_all, try_join_all};
use serde_json::{Map, Value};

/// One fault, ready to be injected. The engine keeps it before it injects it, and heals it whatever happens.
#[async_trait]
pub trait Fault: Send {
    /// What the fault says about itself in its events. `observed` is what `inject` saw; empty before.
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription;
    /// Injects it, and looks from inside. An error: not injected; healing follows, as part may be done.
    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError>;
    /// Undoes what `inject` did, and nothing else, and looks whether it is undone.
    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError>;
    /// Nodes that its parameters name besides the targets: an unknown one is refused before a run starts.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    /// What it does to clocks; none for a fault that leaves them alone.
    fn motions(&self) -> Option<Motions> {
        None
    }
}

/// Asks each of these nodes, all at once. Gives the answer of each one. Errors: the first one, at once.
pub(crate) async fn of_each<'a, T, Asking: Future<Output = Result<T, FaultError>>>(
    nodes: impl IntoIterator<Item = &'a String>,
    ask: impl Fn(&'a String) -> Asking,
) -> Result<Vec<(String, T)>, FaultError> {
    try_join_all(nodes.into_iter().map(|node| named(node, ask(node)))).await
}

/// Heals each of these nodes, even if one cannot be healed. Errors: the first one, once all were tried.
pub(crate) async fn heal_each<'a, Healing, Healed>(
    nodes: impl IntoIterator<Item = &'a String>,
    heal: impl Fn(&'a String) -> Healing,
) -> Result<Healed, FaultError>
where
    Healing: Future<Output = Result<Value, FaultError>>,
    Healed: FromIterator<(String, Value)>,
{
    let healed = nodes.into_iter().map(|node| named(node, heal(node)));
    join_all(healed).await.into_iter().collect()
}

async fn named<T>(
    node: &str,
    asking: impl Future<Output = Result<T, FaultError>>,
) -> Result<(String, T), FaultError> {
    Ok((node.to_owned(), asking.await?))
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Per target, in the fault's own terms.
    pub observed: Map<String, Value>,
    /// Whether anything was observed to change.
    pub effective: bool,
}

/// Of each target what was observed, and whether it changed.
impl FromIterator<(String, (Value, bool))> for Observation {
    fn from_iter<Targets: IntoIterator<Item = (String, (Value, bool))>>(targets: Targets) -> Observation {
        let mut seen = Observation::default();
        for (target, (observed, effective)) in targets {
            seen.effective |= effective;
            seen.observed.insert(target, observed);
        }
        seen
    }
}
