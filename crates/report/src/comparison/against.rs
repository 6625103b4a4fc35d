//! How each lock stands to a reference under each nemesis: by the rates of runs in which it failed.

use super::model::{Cell, Comparison};
use fencepost_checker::{Harm, Outcome, Rate};
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
    fn word(self) -> &'static str {
        match self {
            CellStanding::Worse => "worse",
            CellStanding::Equal => "equal",
            CellStanding::Better => "better",
            CellStanding::Uncertain => "uncertain",
        }
    }

    /// What it is coloured by.
    fn outcome(self) -> Option<Outcome> {
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

/// In how many of the decided runs of a cell the lock failed. Of a cell whose runs are in memory.
fn rate(cell: &Cell) -> Rate {
    let mut rate = Rate::default();
    for run in &cell.runs {
        let worst = run.figures.as_ref().and_then(|figures| figures.harm);
        match run.outcome {
            Outcome::Violation => rate.add(!matches!(worst, Some(Harm::Unfenced | Harm::BusyMachine))),
            Outcome::Valid => rate.add(false),
            Outcome::Unknown | Outcome::Vacuous => {}
        }
    }
    rate
}

impl Comparison {
    /// Compares each cell with that of the reference with the same guard, if there is a reference.
    pub fn compare_with_reference(&mut self) {
        let Some(reference) = self.against.clone() else { return };
        let rates = |cells: &[Cell]| cells.iter().map(rate).collect::<Vec<_>>();
        let references = self.rows.iter().filter(|row| row.lock == reference);
        let references: Vec<(String, Vec<Rate>)> =
            references.map(|row| (row.guard.clone(), rates(&row.cells))).collect();
        for row in self.rows.iter_mut().filter(|row| row.lock != reference) {
            let Some((_, there)) = references.iter().find(|(guard, _)| *guard == row.guard) else { continue };
            for (cell, there) in row.cells.iter_mut().zip(there) {
                cell.against = CellDifference::of(rate(cell), *there);
            }
        }
    }
}

/// What stands under the matrix.
pub(super) struct AgainstTable {
    pub title: String,
    /// How to read it.
    pub note: String,
    pub lines: Vec<AgainstLine>,
}

/// A lock under a nemesis.
pub(super) struct AgainstLine {
    pub label: String,
    pub nemesis: String,
    pub standing: String,
    /// What it is coloured by.
    pub outcome: Option<Outcome>,
    /// `3 of 3 against 0 of 3`.
    pub rates: String,
    /// `+21 to +100`.
    pub difference: String,
}

/// Each lock under each nemesis. None without a reference.
pub(super) fn table(comparison: &Comparison) -> Option<AgainstTable> {
    let reference = comparison.against.as_ref()?;
    let mut lines = Vec::new();
    for row in comparison.rows.iter().filter(|row| row.lock != *reference) {
        for (nemesis, cell) in comparison.nemeses.iter().zip(&row.cells) {
            lines.push(line(comparison.label(row), nemesis, cell));
        }
    }
    let note = "runs in which the lock failed, without late writes that only a fence prevents; then how many percentage \
                points more that is, the 95 % interval (Newcombe). Worse and better: the interval excludes 0; uncertain: \
                the rates differ, and so few runs do not exclude chance";
    Some(AgainstTable { title: format!("Against {reference}"), note: note.to_owned(), lines })
}

fn line(label: String, nemesis: &str, cell: &Cell) -> AgainstLine {
    let nemesis = nemesis.to_owned();
    match &cell.against {
        Some(CellDifference { standing, rate, reference, difference: (low, high) }) => AgainstLine {
            label,
            nemesis,
            standing: standing.word().to_owned(),
            outcome: standing.outcome(),
            rates: format!("{rate} against {reference}"),
            difference: format!("{} to {}", points(*low), points(*high)),
        },
        None => AgainstLine {
            label,
            nemesis,
            standing: if cell.not_applicable.is_some() { "n/a" } else { "not compared" }.to_owned(),
            outcome: None,
            rates: String::new(),
            difference: String::new(),
        },
    }
}

/// `+21`, `-4`, `0`.
fn points(value: f64) -> String {
    match value.round() {
        0.0 => "0".to_owned(),
        rounded => format!("{rounded:+.0}"),
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
        assert_eq!([0.4, -0.4, 20.6, -12.5].map(points), ["0", "0", "+21", "-13"]);
    }
}
