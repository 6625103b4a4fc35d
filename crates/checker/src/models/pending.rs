use crate::operations::NEVER;
use std::collections::VecDeque;

/// Interchangeable operations that were invoked and are not yet in the order. The one that must complete
/// first comes first; the indeterminate come last. A process has one operation open at a time, so the certain
/// ones are few: a list in order of their completions, the earliest at its end.
#[derive(Default)]
pub(crate) struct PendingOperations {
    certain: Vec<(u32, u32)>,
    indeterminate: VecDeque<u32>,
}

impl PendingOperations {
    pub fn push(&mut self, at: u32, complete: u32) {
        if complete == NEVER {
            self.indeterminate.push_back(at);
            return;
        }
        let place = self.certain.partition_point(|(other, _)| *other > complete);
        self.certain.insert(place, (complete, at));
    }

    /// Takes the operation that is best put into the order first.
    pub fn take(&mut self) -> Option<u32> {
        let certain = self.certain.pop().map(|(_, at)| at);
        certain.or_else(|| self.indeterminate.pop_front())
    }

    /// Takes the operation that completes at this event, if it is still open: it can only be the first.
    pub fn take_completing(&mut self, complete: u32) -> bool {
        self.certain.pop_if(|(first, _)| *first == complete).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_by_deadline_and_the_indeterminate_last() {
        let mut pending = PendingOperations::default();
        for (at, complete) in [(1, 999_999), (2, NEVER), (3, 70), (4, 64), (5, 5_000), (6, NEVER)] {
            pending.push(at, complete);
        }
        assert!(pending.take_completing(64) && !pending.take_completing(64) && !pending.take_completing(65));
        assert_eq!(std::iter::from_fn(|| pending.take()).collect::<Vec<u32>>(), [3, 5, 1, 2, 6]);
        assert_eq!(PendingOperations::default().take(), None);
    }
}
