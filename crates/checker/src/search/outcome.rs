/// What a search can end in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchOutcome<S> {
    /// The history is linearizable, by this order of all certain and the necessary indeterminate operations.
    Order(Vec<u32>),
    Stuck(Stuck<S>),
    Exhausted(Exhausted),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck<S> {
    /// The operation that can take effect in none of them.
    pub at: u32,
    /// A longest order that explains everything before it, and the state that it leads to.
    pub longest: Vec<u32>,
    pub state: S,
}

/// How far a search came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    pub reason: &'static str,
    /// Events that were explained, of how many.
    pub events_done: usize,
    pub events: usize,
}
