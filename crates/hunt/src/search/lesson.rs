//! What the history of one schedule taught: the situations that it covered, and how near to a violation it came.

use std::collections::BTreeMap;

/// The name of a situation: a fault, the role of its target, and the phase of the lock's life in which it struck.
pub type SituationName = String;

/// What a schedule taught.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lesson {
    /// The situations that it covered, each with the distance to a violation there in milliseconds, where one is known.
    pub situations: BTreeMap<SituationName, Option<f64>>,
    /// The signature of the violation that it showed, if it showed one.
    pub violation: Option<String>,
}

impl Lesson {
    /// The smallest distance of all situations.
    pub fn nearest_ms(&self) -> Option<f64> {
        self.situations.values().flatten().copied().min_by(f64::total_cmp)
    }
}
