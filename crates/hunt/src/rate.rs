//! How often a violation came, and what so many plays say about how often it comes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// So many of so many plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub violations: usize,
    pub plays: usize,
}

/// What an interval leaves out on both sides together.
const OUTSIDE: f64 = 0.05;

impl Rate {
    /// Counts one more play.
    pub fn add(&mut self, violation: bool) {
        self.plays += 1;
        self.violations += usize::from(violation);
    }

    /// The exact 95 % interval of the probability (Clopper and Pearson 1934). Where all plays or none showed
    /// the violation, only one side is open, and has all of the 5 %: none of n leaves up to about 3 / n.
    pub fn interval(self) -> (f64, f64) {
        let Rate { violations, plays } = self;
        let one_sided = violations == 0 || violations == plays;
        let outside = if one_sided { OUTSIDE } else { OUTSIDE / 2.0 };
        let low = match violations {
            0 => 0.0,
            // At the lower end, so many or more would be as rare as that.
            _ => solve(|p| 1.0 - at_most(violations - 1, plays, p) - outside),
        };
        let high = match violations == plays {
            true => 1.0,
            // At the upper end, so many or fewer.
            false => solve(|p| outside - at_most(violations, plays, p)),
        };
        (low, high)
    }
}

impl fmt::Display for Rate {
    /// `8 of 10`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {}", self.violations, self.plays)
    }
}

/// The probability of at most `k` of `n`, each with the probability `p`.
fn at_most(k: usize, n: usize, p: f64) -> f64 {
    let (ln_p, ln_q) = (p.ln(), (1.0 - p).ln());
    let mut ln_ways = 0.0;
    let mut sum = 0.0;
    for i in 0..=k.min(n) {
        if i > 0 {
            ln_ways += ((n - i + 1) as f64).ln() - (i as f64).ln();
        }
        let (yes, no) = (i as f64, (n - i) as f64);
        let power = |times: f64, ln: f64| if times == 0.0 { 0.0 } else { times * ln };
        sum += (ln_ways + power(yes, ln_p) + power(no, ln_q)).exp();
    }
    sum.min(1.0)
}

/// Where a function that grows from below 0 to above 0 between 0 and 1 passes 0.
fn solve(grows: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if grows(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(rate: (usize, usize), low: f64, high: f64) {
        let found = Rate { violations: rate.0, plays: rate.1 }.interval();
        assert!((found.0 - low).abs() < 5e-4 && (found.1 - high).abs() < 5e-4, "{rate:?}: {found:?}");
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        close((8, 10), 0.4439, 0.9748);
        close((1, 10), 0.0025, 0.4450);
        close((5, 20), 0.0866, 0.4910);
        // The rule of three, exactly: 1 - 0.05^(1/n).
        close((0, 10), 0.0, 0.2589);
        close((10, 10), 0.7411, 1.0);
        close((0, 0), 0.0, 1.0);
    }

    proptest! {
        #[test]
        fn an_interval_holds_what_was_observed(plays in 1..60_usize, part in 0.0..=1.0_f64) {
            let violations = ((plays as f64) * part) as usize;
            let (low, high) = Rate { violations, plays }.interval();
            let observed = violations as f64 / plays as f64;
            prop_assert!(0.0 <= low && low <= observed && observed <= high && high <= 1.0);
        }
    }
}
