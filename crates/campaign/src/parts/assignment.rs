//! Which part plays which runs: they are assigned to parts so that all parts take about the same time.

use fencepost_history::Shard;
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

/// Which part plays each run of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    part_of: Vec<u32>,
}

/// Assigns runs, of which each takes so many milliseconds, to parts: the longest first, each to the part that
/// has least to do (R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969: at most a third longer
/// than optimal). None, an impossible run, is in no part. The result is the same on every machine.
pub fn assign(lengths_ms: &[Option<u64>], of: NonZeroU32) -> Assignment {
    let mut longest_first: Vec<(Reverse<u64>, usize)> =
        (0..).zip(lengths_ms).filter_map(|(run, length)| Some((Reverse((*length)?), run))).collect();
    longest_first.sort_unstable();
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> =
        Shard::all(of).map(|shard| Reverse((0, shard.number()))).collect();
    let mut part_of = vec![0; lengths_ms.len()];
    for (Reverse(length), run) in longest_first {
        let Some(Reverse((load, part))) = loads.pop() else { break };
        part_of[run] = part;
        // A run of no length would all be assigned to one part.
        loads.push(Reverse((load + length.max(1), part)));
    }
    Assignment { part_of }
}

impl Assignment {
    pub fn runs(&self, part: u32) -> Vec<u64> {
        (0..).zip(&self.part_of).filter(|(_, assigned)| **assigned == part).map(|(run, _)| run).collect()
    }

    /// Tells this assignment from others.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        self.part_of.iter().for_each(|part| digest.update(part.to_le_bytes()));
        digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(of: u32) -> NonZeroU32 {
        NonZeroU32::new(of).unwrap()
    }

    #[test]
    fn the_longest_runs_are_dealt_first() {
        let assigned = assign(&[Some(5), Some(9), None, Some(5), Some(8), Some(3)], parts(2));
        // 9, then 8; 5 to the 8, 5 to the 9, 3 to the 13.
        assert_eq!((assigned.runs(1), assigned.runs(2)), (vec![1, 3], vec![0, 4, 5]));
    }

    #[test]
    fn more_parts_than_runs_leave_parts_without_any() {
        let assigned = assign(&[Some(5), Some(5)], parts(3));
        assert_eq!((assigned.runs(1), assigned.runs(2), assigned.runs(3)), (vec![0], vec![1], vec![]));
    }

    proptest! {
        #[test]
        fn every_run_is_dealt_once_and_no_part_is_longer_by_more_than_a_run(
            lengths in prop::collection::vec(prop::option::weighted(0.9, 0_u64..100_000), 0..200), of in 1_u32..20,
        ) {
            let assigned = assign(&lengths, parts(of));
            prop_assert_eq!(&assigned, &assign(&lengths, parts(of)));
            let hands: Vec<Vec<u64>> = (1..=of).map(|part| assigned.runs(part)).collect();
            let mut all: Vec<u64> = hands.concat();
            all.sort_unstable();
            let possible: Vec<u64> = (0..).zip(&lengths).filter(|(_, length)| length.is_some()).map(|(run, _)| run).collect();
            prop_assert_eq!(all, possible);
            let load = |hand: &Vec<u64>| hand.iter().map(|run| lengths[*run as usize].unwrap().max(1)).sum::<u64>();
            let loads: Vec<u64> = hands.iter().map(load).collect();
            let longest = lengths.iter().flatten().copied().max().unwrap_or(0).max(1);
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= longest);
        }
    }
}
