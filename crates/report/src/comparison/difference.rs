//! The difference between two rates of failure, and what it says.

use crate::rate::Rate;
use fencepost_checker::{Harm, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// In how many of the decided runs of a cell the lock failed, and by what: each run counts by the worst.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    pub all: Rate,
    pub kinds: BTreeMap<Harm, usize>,
}

impl Failures {
    fn of_kind(&self, kind: Harm) -> Rate {
        Rate { violations: self.kinds.get(&kind).copied().unwrap_or(0), plays: self.all.plays }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CellDifference {
    pub standing: CellStanding,
    /// In how many of its decided runs the lock failed, without late writes that only a fence prevents.
    pub rate: Rate,
    pub reference: Rate,
    /// How much more often the lock fails, with 95 % confidence, in percentage points.
    pub difference: (f64, f64),
    /// Kinds of failures whose rates differ, where there are several: the lock's, and the reference's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<Harm, (Rate, Rate)>,
}

/// What a difference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellStanding {
    /// The lock fails more often: the interval excludes 0.
    Worse,
    /// The rates are the same, of all failures and of each kind.
    Equal,
    /// The lock certainly fails by another kind of failure only: the interval of a kind excludes 0.
    Otherwise,
    Better,
    /// The rates differ, and chance alone may do that in so few runs.
    Uncertain,
}

impl fmt::Display for CellStanding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

impl CellStanding {
    pub(super) fn outcome(self) -> Option<Outcome> {
        match self {
            CellStanding::Worse | CellStanding::Otherwise => Some(Outcome::Violation),
            CellStanding::Better => Some(Outcome::Valid),
            CellStanding::Equal | CellStanding::Uncertain => None,
        }
    }
}

impl CellDifference {
    /// Of a lock's failures to those of the reference. None where one of the two has no decided run.
    pub fn of(here: &Failures, there: &Failures) -> Option<CellDifference> {
        let (rate, reference) = (here.all, there.all);
        if rate.plays == 0 || reference.plays == 0 {
            return None;
        }
        let (low, high) = rate.difference(reference);
        let same = |one: Rate, other: Rate| one.violations * other.plays == other.violations * one.plays;
        let kinds: BTreeMap<Harm, (Rate, Rate)> = Harm::ALL
            .into_iter()
            .map(|kind| (kind, (here.of_kind(kind), there.of_kind(kind))))
            .filter(|(_, (here, there))| !same(*here, *there))
            .collect();
        let is_certain = |(here, there): &(Rate, Rate)| {
            let (low, high) = here.difference(*there);
            low > 0.0 || high < 0.0
        };
        let standing = match () {
            () if low > 0.0 => CellStanding::Worse,
            () if high < 0.0 => CellStanding::Better,
            () if kinds.values().any(is_certain) => CellStanding::Otherwise,
            () if same(rate, reference) && kinds.is_empty() => CellStanding::Equal,
            () => CellStanding::Uncertain,
        };
        // Of one kind alone, the rates say it.
        let kinds = if kinds.len() > 1 { kinds } else { BTreeMap::new() };
        Some(CellDifference { standing, rate, reference, difference: (low * 100.0, high * 100.0), kinds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_one_only_where_the_interval_excludes_none() {
        let standing = |here: (usize, usize), there: (usize, usize)| {
            standing_of((here, Harm::GrantedTwice), (there, Harm::GrantedTwice))
        };
        assert_eq!(standing((3, 3), (0, 3)), Some(CellStanding::Worse));
        assert_eq!(standing((0, 3), (3, 3)), Some(CellStanding::Better));
        assert_eq!(standing((1, 3), (0, 3)), Some(CellStanding::Uncertain));
        assert_eq!(standing((2, 4), (1, 2)), Some(CellStanding::Equal));
        assert_eq!(standing((0, 3), (0, 3)), Some(CellStanding::Equal));
        assert_eq!(standing((0, 0), (0, 3)), None);
    }

    fn standing_of(here: ((usize, usize), Harm), there: ((usize, usize), Harm)) -> Option<CellStanding> {
        let failures = |((violations, plays), kind)| Failures {
            all: Rate { violations, plays },
            kinds: BTreeMap::from([(kind, violations)]),
        };
        CellDifference::of(&failures(here), &failures(there)).map(|difference| difference.standing)
    }

    #[test]
    fn locks_that_fail_as_often_by_other_failures_are_not_equal() {
        let standing = |here, there| standing_of((here, Harm::Stuck), (there, Harm::GrantedTwice));
        assert_eq!(standing((2, 2), (2, 2)), Some(CellStanding::Otherwise));
        assert_eq!(standing((1, 3), (1, 3)), Some(CellStanding::Uncertain), "chance may do that");
        assert_eq!(standing((0, 2), (0, 2)), Some(CellStanding::Equal));
        assert_eq!(standing((3, 3), (0, 3)), Some(CellStanding::Worse));
    }
}
