//! Whether processes are left out by chance.
//!
//! The lock that is never accused is drawn by lot: each grant goes to one of the processes that asked for it,
//! or, in up to half of the cases ([`BACK`]), to the process that had it last, which may be the first to ask
//! again. A set of k of n processes that all asked is then missed by one grant with a probability of at most
//! 1 - (1 - [`BACK`]) k / (n - 1), and by several with the product of these, whatever came before. A run has
//! many sets and many moments from which on they may be missed: the product is multiplied by their number (C(n,
//! k) sets, and each stretch of any process that begins with a refusal after its last grant), and must be at
//! most [`ACCUSED`]. So such a lock is accused in fewer than one of a million runs.

/// The share of grants that may go back to the process that had the lock last.
const BACK: f64 = 0.5;

/// The share of runs in which a lock that is drawn by lot may be accused.
const ACCUSED: f64 = 1e-6;

/// Whether a set of processes was left out by something else than chance: `asked` are, for each grant to
/// another process, how many of the set had asked for it; `set` is their number, of `processes` in all;
/// `stretches` are those of the whole run.
pub(super) fn is_no_chance(
    asked: impl Iterator<Item = usize>,
    set: usize,
    processes: usize,
    stretches: usize,
) -> bool {
    let others = processes.saturating_sub(1).max(1) as f64;
    let missed: f64 = asked.map(|asked| (1.0 - (1.0 - BACK) * asked as f64 / others).ln()).sum();
    missed + ln_sets(set, processes) + (stretches.max(1) as f64).ln() <= ACCUSED.ln()
}

/// The logarithm of the number of sets of `set` processes of `all`.
fn ln_sets(set: usize, all: usize) -> f64 {
    (0..set).map(|at| ((all - at) as f64 / (at + 1) as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least_grants(set: usize, processes: usize) -> usize {
        (0..)
            .find(|&grants| is_no_chance((0..grants).map(|_| set), set, processes, grants + processes))
            .unwrap()
    }

    #[test]
    fn the_more_processes_are_left_out_the_sooner_it_is_no_chance() {
        let least: Vec<usize> = [1, 3, 5, 8].map(|set| least_grants(set, 10)).into();
        assert_eq!(least, [387, 130, 74, 37]);
        assert_eq!(least_grants(1, 2), 26);
    }

    #[test]
    fn grants_that_were_not_asked_for_prove_nothing() {
        assert!(!is_no_chance((0..100_000).map(|_| 0), 1, 2, 2));
    }
}
