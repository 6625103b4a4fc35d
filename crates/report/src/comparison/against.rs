//! How each lock stands to a reference under each nemesis: by the rates of runs in which it failed.

use super::difference::{CellDifference, Failures};
use super::model::{Cell, Comparison};
use crate::rate::Rate;
use fencepost_checker::{Harm, Outcome};
use std::collections::BTreeMap;

/// In how many of a cell's decided runs, which are in memory, the lock failed, and by what.
fn failures(cell: &Cell) -> Failures {
    let mut failures = Failures::default();
    for run in &cell.runs {
        let worst = run.figures.as_ref().and_then(|figures| figures.harm);
        let failed = !matches!(worst, Some(Harm::Unfenced | Harm::BusyMachine));
        match run.outcome {
            Outcome::Violation => {
                failures.all.add(failed);
                if let Some(kind) = worst.filter(|_| failed) {
                    *failures.kinds.entry(kind).or_default() += 1;
                }
            }
            Outcome::Valid => failures.all.add(false),
            Outcome::Unknown | Outcome::Vacuous => {}
        }
    }
    failures
}

impl Comparison {
    /// Compares each cell with that of the reference with the same guard, if there is a reference.
    pub fn compare_with_reference(&mut self) {
        let Some(reference) = self.against.clone() else { return };
        let of_cells = |cells: &[Cell]| cells.iter().map(failures).collect::<Vec<_>>();
        let references = self.rows.iter().filter(|row| row.lock == reference);
        let references: Vec<(String, Vec<Failures>)> =
            references.map(|row| (row.guard.clone(), of_cells(&row.cells))).collect();
        for row in self.rows.iter_mut().filter(|row| row.lock != reference) {
            let Some((_, there)) = references.iter().find(|(guard, _)| *guard == row.guard) else { continue };
            for (cell, there) in row.cells.iter_mut().zip(there) {
                cell.against = CellDifference::of(&failures(cell), there);
            }
        }
    }
}

pub(super) struct AgainstTable {
    pub title: String,
    pub note: String,
    pub lines: Vec<AgainstLine>,
}

#[derive(Default)]
pub(super) struct AgainstLine {
    pub label: String,
    pub nemesis: String,
    pub standing: String,
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
                points more that is, the 95 % interval (Newcombe). Worse and better: the interval excludes 0; otherwise: that of \
                a kind of failure does; uncertain: rates differ, and so few runs do not exclude chance";
    Some(AgainstTable { title: format!("Against {reference}"), note: note.to_owned(), lines })
}

fn line(label: String, nemesis: &str, cell: &Cell) -> AgainstLine {
    let nemesis = nemesis.to_owned();
    match &cell.against {
        Some(CellDifference { standing, rate, reference, difference: (low, high), kinds }) => AgainstLine {
            label,
            nemesis,
            standing: standing.to_string(),
            outcome: standing.outcome(),
            rates: format!("{rate} against {reference}{}", in_words(kinds)),
            difference: format!("{} to {}", points(*low), points(*high)),
        },
        None => {
            let standing = if cell.not_applicable.is_some() { "n/a" } else { "not compared" }.to_owned();
            AgainstLine { label, nemesis, standing, ..AgainstLine::default() }
        }
    }
}

/// ` (granted twice 0 against 2, stuck 2 against 0)`; nothing where all kinds come as often.
fn in_words(kinds: &BTreeMap<Harm, (Rate, Rate)>) -> String {
    let kind = |(kind, (here, there)): (&Harm, &(Rate, Rate))| {
        format!("{} {} against {}", kind.in_words(), here.violations, there.violations)
    };
    match kinds.len() {
        0 => String::new(),
        _ => format!(" ({})", kinds.iter().map(kind).collect::<Vec<_>>().join(", ")),
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
    fn kinds_of_failures_stand_beside_the_rates() {
        let rate = |violations| Rate { violations, plays: 2 };
        let kinds = [(Harm::Stuck, (rate(2), rate(0))), (Harm::GrantedTwice, (rate(0), rate(2)))];
        assert_eq!(in_words(&kinds.into()), " (granted twice 0 against 2, stuck 2 against 0)");
        assert_eq!(in_words(&BTreeMap::new()), "");
    }

    #[test]
    fn points_are_whole_and_have_a_sign() {
        assert_eq!([0.4, -0.4, 20.6, -12.5].map(points), ["0", "0", "+21", "-13"]);
    }
}
