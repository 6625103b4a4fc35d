//! How often a violation came, and what so many plays say about how often it comes.

use fencepost_checker::wilson;
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

    /// `2 of 10 runs (3 to 56 %)`: with the interval in percent.
    pub fn of_runs(self) -> String {
        let (low, high) = self.interval();
        let runs = if self.plays == 1 { "run" } else { "runs" };
        format!("{self} {runs} ({:.0} to {:.0} %)", low * 100.0, high * 100.0)
    }

    /// So many of all plays; 0 without any.
    pub fn share(self) -> f64 {
        self.violations as f64 / self.plays.max(1) as f64
    }

    /// The 95 % interval of how much more probable a violation is here than there, from -1 to 1 (R. G.
    /// Newcombe, "Interval estimation for the difference between independent proportions: comparison of
    /// eleven methods", 1998, method 10): from the intervals of Wilson of both shares, so that it is also
    /// right for few plays and for shares of 0 and 1. Without any play on one side nothing is known.
    pub fn difference(self, other: Rate) -> (f64, f64) {
        if self.plays == 0 || other.plays == 0 {
            return (-1.0, 1.0);
        }
        let (here, there) = (self.share(), other.share());
        let (low_here, high_here) = wilson(self.violations, self.plays);
        let (low_there, high_there) = wilson(other.violations, other.plays);
        let low = here - there - (here - low_here).hypot(high_there - there);
        let high = here - there + (high_here - here).hypot(there - low_there);
        (low.max(-1.0), high.min(1.0))
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

    #[test]
    fn differences_are_those_of_the_paper() {
        let rate = |(violations, plays)| Rate { violations, plays };
        // Table II of the paper, method 10.
        for (here, there, low, high) in [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((6, 7), (2, 7), 0.0582, 0.8062),
            ((5, 56), (0, 29), -0.0381, 0.1926),
            ((0, 10), (0, 20), -0.1611, 0.2775),
            ((0, 10), (0, 10), -0.2775, 0.2775),
            ((10, 10), (0, 20), 0.6791, 1.0),
            ((10, 10), (0, 10), 0.6075, 1.0),
        ] {
            let found = rate(here).difference(rate(there));
            let is_close = (found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4;
            assert!(is_close, "{here:?} against {there:?}: {found:?}");
            let turned = rate(there).difference(rate(here));
            assert_eq!(turned, (-found.1, -found.0), "{there:?} against {here:?}");
        }
        assert_eq!(rate((3, 3)).difference(rate((0, 0))), (-1.0, 1.0));
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
