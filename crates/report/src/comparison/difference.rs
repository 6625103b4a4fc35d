//! The difference between two rates of failure, and what it says.

use fencepost_checker::{Outcome, Rate};
use serde::{Deserialize, Serialize};

/// A cell beside that of the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CellDifference {
    pub standing: CellStanding,
    /// In how many of its decided runs the lock failed. Late writes that only a fence prevents do not count,
    /// nor does a busy machine.
    pub rate: Rate,
    /// The same of the reference.
    pub reference: Rate,
    /// How much more often the lock fails, with 95 % confidence, in percentage points.
    pub difference: (f64, f64),
}

/// What a difference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellStanding {
    /// The lock fails more often: the interval excludes 0.
    Worse,
    /// The rates are the same.
    Equal,
    /// The lock fails less often.
    Better,
    /// The rates differ, and chance alone may do that in so few runs.
    Uncertain,
}

impl CellStanding {
    pub(super) fn word(self) -> &'static str {
        match self {
            CellStanding::Worse => "worse",
            CellStanding::Equal => "equal",
            CellStanding::Better => "better",
            CellStanding::Uncertain => "uncertain",
        }
    }

    /// What it is coloured by.
    pub(super) fn outcome(self) -> Option<Outcome> {
        match self {
            CellStanding::Worse => Some(Outcome::Violation),
            CellStanding::Better => Some(Outcome::Valid),
            CellStanding::Equal | CellStanding::Uncertain => None,
        }
    }
}

impl CellDifference {
    /// Of a lock's rate to that of the reference. None where one of the two has no decided run.
    pub fn of(rate: Rate, reference: Rate) -> Option<CellDifference> {
        if rate.plays == 0 || reference.plays == 0 {
            return None;
        }
        let (low, high) = rate.difference(reference);
        let standing = match rate.violations * reference.plays == reference.violations * rate.plays {
            true => CellStanding::Equal,
            false if low > 0.0 => CellStanding::Worse,
            false if high < 0.0 => CellStanding::Better,
            false => CellStanding::Uncertain,
        };
        Some(CellDifference { standing, rate, reference, difference: (low * 100.0, high * 100.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_one_only_where_the_interval_excludes_none() {
        let standing = |here: (usize, usize), there: (usize, usize)| {
            let rate = |(violations, plays)| Rate { violations, plays };
            CellDifference::of(rate(here), rate(there)).map(|difference| difference.standing)
        };
        assert_eq!(standing((3, 3), (0, 3)), Some(CellStanding::Worse));
        assert_eq!(standing((0, 3), (3, 3)), Some(CellStanding::Better));
        assert_eq!(standing((1, 3), (0, 3)), Some(CellStanding::Uncertain));
        assert_eq!(standing((2, 4), (1, 2)), Some(CellStanding::Equal));
        assert_eq!(standing((0, 3), (0, 3)), Some(CellStanding::Equal));
        assert_eq!(standing((0, 0), (0, 3)), None);
    }
}
