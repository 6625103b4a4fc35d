//! How long and how large a search may be. This crate looks at a clock only here; no verdict depends on it.

use std::time::{Duration, Instant};

/// What a search may use up. Past it the answer is "unknown", with how far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    deadline: Option<Instant>,
    /// Bytes for the configurations of the search. States that allocate are counted by their own size only.
    pub memory_bytes: usize,
}

impl Budget {
    /// No bound but the machine's memory.
    pub const fn unlimited() -> Budget {
        Budget { deadline: None, memory_bytes: usize::MAX }
    }

    /// From now on.
    pub fn new(time: Duration, memory_bytes: usize) -> Budget {
        Budget { deadline: Instant::now().checked_add(time), memory_bytes }
    }

    /// The same memory, and at most this time from now on.
    pub fn at_most(self, time: Duration) -> Budget {
        let end = Instant::now().checked_add(time);
        let deadline = match (self.deadline, end) {
            (Some(deadline), Some(end)) => Some(deadline.min(end)),
            (deadline, end) => deadline.or(end),
        };
        Budget { deadline, ..self }
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}
