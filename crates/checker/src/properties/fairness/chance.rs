//! Whether processes are left out by chance. The lock that is never accused is drawn by lot: each grant goes
//! to one of the processes that asked for it since the one before, or in up to a third of the cases
//! ([`BACK`]) to the process that had it last, which may be the first to ask again (a workload rests after
//! three of four sections only). So if k of the c processes that asked, but for the last holder, are of some
//! set, the grant misses the set with a probability of at most 1 - (1 - [`BACK`]) k / c, and several grants
//! do with the product of these, whatever came before. As a run has many sets and moments, the product is
//! multiplied by their number (C(n, k) sets of k of n processes, and each stretch in which a process waits),
//! and must be at most [`ACCUSED`]. So such a lock is accused in fewer than one of a million runs.

/// The share of grants that may go back to the process that had the lock last.
const BACK: f64 = 1.0 / 3.0;

/// The share of runs in which a lock that is drawn by lot may be accused.
const ACCUSED: f64 = 1e-6;

/// A grant: how many processes but the last holder had asked for it, and how many of them were left out.
pub(super) struct Lot {
    pub asked: usize,
    pub of_set: usize,
}

/// Whether these grants left out a set of the `processes` not by chance; `stretches`: the run's waits.
pub(super) fn is_no_chance(
    draws: impl Iterator<Item = Lot>,
    set: usize,
    processes: usize,
    stretches: usize,
) -> bool {
    let missed = |Lot { asked, of_set }| (1.0 - (1.0 - BACK) * of_set as f64 / asked.max(1) as f64).ln();
    let all: f64 = draws.map(missed).sum();
    all + ln_sets(set, processes) + (stretches.max(1) as f64).ln() <= ACCUSED.ln()
}

fn ln_sets(set: usize, all: usize) -> f64 {
    (0..set).map(|at| ((all - at) as f64 / (at + 1) as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(grants: usize, asked: usize, of_set: usize) -> impl Iterator<Item = Lot> {
        (0..grants).map(move |_| Lot { asked, of_set })
    }

    fn least_grants(set: usize, processes: usize) -> usize {
        let proves = |grants: &usize| {
            is_no_chance(draws(*grants, processes - 1, set), set, processes, grants + processes)
        };
        (0..).find(proves).unwrap()
    }

    #[test]
    fn the_more_processes_are_left_out_the_sooner_it_is_no_chance() {
        let least: Vec<usize> = [1, 3, 5, 8].map(|set| least_grants(set, 10)).into();
        assert_eq!(least, [284, 93, 51, 24]);
        assert_eq!(least_grants(1, 2), 16);
    }

    #[test]
    fn grants_that_were_not_asked_for_prove_nothing() {
        assert!(!is_no_chance(draws(100_000, 1, 0), 1, 2, 2) && !is_no_chance(draws(100_000, 0, 0), 1, 2, 2));
    }
}
