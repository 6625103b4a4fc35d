//! Operations of one kind that wait to be put into the order.

use crate::operations::NEVER;
use std::collections::VecDeque;

/// Interchangeable operations that were invoked and are not yet in the order. The one that must complete
/// first comes first; the indeterminate, which never must, come last.
///
/// A certain operation is known by the place of its completion, which no other has. So the certain ones are a
/// set of small numbers, kept as bits with summaries: a bit of a summary tells whether a word below it has
/// any. The least is found in as many steps as there are levels, four for ten million events.
pub(crate) struct Pending {
    levels: Vec<Vec<u64>>,
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
    /// For a history with so many events.
    pub fn new(events: usize) -> Pending {
        let mut levels = Vec::new();
        let mut bits = events.max(1);
        while bits > 1 || levels.is_empty() {
            bits = bits.div_ceil(64);
            levels.push(vec![0; bits]);
        }
        Pending { levels, indeterminate: VecDeque::new() }
    }

    pub fn push(&mut self, at: u32, complete: u32) {
        if complete == NEVER {
            self.indeterminate.push_back(at);
            return;
        }
        let mut place = complete as usize;
        for level in &mut self.levels {
            let word = &mut level[place / 64];
            let had_any = *word != 0;
            *word |= 1 << (place % 64);
            if had_any {
                break;
            }
            place /= 64;
        }
    }

    /// Takes the operation that is best put into the order first.
    pub fn take(&mut self) -> Option<Taken> {
        let top = self.levels.last().map_or(0, |level| level[0]);
        if top == 0 {
            return self.indeterminate.pop_front().map(Taken::Indeterminate);
        }
        let place =
            self.levels.iter().rev().fold(0, |word, level| word * 64 + level[word].trailing_zeros() as usize);
        self.remove(place);
        Some(Taken::CompletingAt(place as u32))
    }

    /// Takes the operation that completes at this event, unless it was taken before.
    pub fn take_completing(&mut self, complete: u32) -> bool {
        let place = complete as usize;
        let due = self.levels[0][place / 64] >> (place % 64) & 1 == 1;
        if due {
            self.remove(place);
        }
        due
    }

    fn remove(&mut self, mut place: usize) {
        for level in &mut self.levels {
            let word = &mut level[place / 64];
            *word &= !(1 << (place % 64));
            if *word != 0 {
                break;
            }
            place /= 64;
        }
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
        let mut pending = Pending::new(1_000_000);
        for (at, complete) in [(1, 999_999), (2, NEVER), (3, 70), (4, 64), (5, 5_000), (6, NEVER)] {
            pending.push(at, complete);
        }
        assert!(pending.take_completing(70) && !pending.take_completing(70) && !pending.take_completing(71));
        let taken: Vec<Taken> = std::iter::from_fn(|| pending.take()).collect();
        let certain = [64, 5_000, 999_999].map(Taken::CompletingAt);
        assert_eq!(taken, [&certain[..], &[2, 6].map(Taken::Indeterminate)].concat());
        let mut tiny = Pending::new(0);
        assert_eq!(tiny.take(), None);
    }
}
