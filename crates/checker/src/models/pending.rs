//! Operations of one kind that wait to be put into the order.

use crate::operations::NEVER;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Interchangeable operations that were invoked and are not yet in the order. The one that must complete first
/// comes first; the indeterminate, which never must, come last.
#[derive(Default)]
pub(crate) struct Pending {
    by_deadline: BinaryHeap<Reverse<(u32, u32)>>,
    indeterminate: VecDeque<u32>,
}

impl Pending {
    pub fn push(&mut self, at: u32, complete: u32) {
        if complete == NEVER {
            self.indeterminate.push_back(at);
        } else {
            self.by_deadline.push(Reverse((complete, at)));
        }
    }

    /// Takes the operation that is best put into the order first.
    pub fn take(&mut self) -> Option<u32> {
        let certain = self.by_deadline.pop().map(|Reverse((_, at))| at);
        certain.or_else(|| self.indeterminate.pop_front())
    }

    /// Takes the operation that completes at this event, unless it was taken before. It must have the earliest
    /// deadline of all, as everything does that completes now.
    pub fn take_completing(&mut self, complete: u32) -> bool {
        let due = self.by_deadline.peek().is_some_and(|Reverse((deadline, _))| *deadline == complete);
        if due {
            self.by_deadline.pop();
        }
        due
    }
}
