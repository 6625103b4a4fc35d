//! Operations of one kind that wait to be put into the order.

use crate::operations::NEVER;
use std::collections::VecDeque;

/// Interchangeable operations that were invoked and are not yet in the order. The one that must complete
/// first comes first; the indeterminate, which never must, come last.
///
/// A certain operation is known by the place of its completion, which no other has. A process has one
/// operation open at a time, so that the certain ones are few: a list in order, the earliest at its end.
#[derive(Default)]
pub(crate) struct Pending {
    completions: Vec<u32>,
    indeterminate: VecDeque<u32>,
}

/// What [`Pending::take`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The operation that completes at this event.
    CompletingAt(u32),
    Indeterminate(u32),
}

impl Pending {
    pub fn push(&mut self, at: u32, complete: u32) {
        if complete == NEVER {
            self.indeterminate.push_back(at);
            return;
        }
        let place = self.completions.partition_point(|other| *other > complete);
        self.completions.insert(place, complete);
    }

    /// Takes the operation that is best put into the order first.
    pub fn take(&mut self) -> Option<Taken> {
        let certain = self.completions.pop().map(Taken::CompletingAt);
        certain.or_else(|| self.indeterminate.pop_front().map(Taken::Indeterminate))
    }

    /// Takes the operation that completes at this event, unless it was taken before. What completed earlier
    /// was taken by then, so that it can only be the first.
    pub fn take_completing(&mut self, complete: u32) -> bool {
        self.completions.pop_if(|first| *first == complete).is_some()
    }
}

impl Taken {
    /// The operation itself, given the events of the history.
    pub fn operation(self, order: &[u32]) -> u32 {
        match self {
            Taken::CompletingAt(place) => order[place as usize] >> 1,
            Taken::Indeterminate(at) => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_by_deadline_and_the_indeterminate_last() {
        let mut pending = Pending::default();
        for (at, complete) in [(1, 999_999), (2, NEVER), (3, 70), (4, 64), (5, 5_000), (6, NEVER)] {
            pending.push(at, complete);
        }
        assert!(pending.take_completing(64) && !pending.take_completing(64) && !pending.take_completing(65));
        let taken: Vec<Taken> = std::iter::from_fn(|| pending.take()).collect();
        let certain = [70, 5_000, 999_999].map(Taken::CompletingAt);
        assert_eq!(taken, [&certain[..], &[2, 6].map(Taken::Indeterminate)].concat());
        assert_eq!(Pending::default().take(), None);
    }
}
