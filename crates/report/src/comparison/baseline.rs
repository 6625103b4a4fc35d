//! What changed since an earlier comparison.

use super::model::{Comparison, Outcomes, Row};
use crate::rate::Rate;
use crate::words::property;
use fencepost_checker::Outcome;
use fencepost_history::BASELINE_BYTES_MAX;
use fencepost_history::run::read_bounded;
use std::path::Path;

/// A file that is no comparison: one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BaselineError(String);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Properties that held, and are violated.
    pub worse: Vec<String>,
    /// Properties that were violated, and held.
    pub better: Vec<String>,
    /// Properties that were decided, and are not any more: not tested, not known.
    pub open: Vec<String>,
    /// How many properties could be compared at all.
    pub compared: usize,
}

/// Reads an earlier `compare.json`. Errors: it is none.
pub fn read(path: &Path) -> Result<Comparison, BaselineError> {
    let text = read_bounded(path, BASELINE_BYTES_MAX)
        .map_err(|error| BaselineError(format!("cannot read the baseline {}: {error}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| {
        BaselineError(format!(
            "the baseline {} is no comparison ({error}); give a compare.json that `fencepost compare` wrote",
            path.display()
        ))
    })
}

/// Which rows of two comparisons belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameRow {
    /// The same lock, used in the same way.
    Exactly,
    /// On whatever versions of its servers: what an upgrade changes.
    AcrossVersions,
}

impl SameRow {
    fn is(self, old: &Row, row: &Row) -> bool {
        match self {
            SameRow::Exactly => old.same(row),
            SameRow::AcrossVersions => old.same_but_for_servers(row),
        }
    }
}

/// How often a property was violated, with what that leaves open.
fn rate(outcomes: &Outcomes) -> String {
    Rate { violations: outcomes.violation, plays: outcomes.runs() }.of_runs()
}

/// Compares property by property, where both have runs of the same lock under the same nemesis.
pub fn changes(before: &Comparison, now: &Comparison, same: SameRow) -> Changes {
    let mut changes = Changes::default();
    for row in &now.rows {
        let Some(old_row) = before.rows.iter().find(|old| same.is(old, row)) else { continue };
        let on = match (old_row.servers.as_slice(), row.servers.as_slice()) {
            ([old, ..], [new, ..]) if old != new => format!(" (from {old} to {new})"),
            _ => String::new(),
        };
        for (nemesis, cell) in now.nemeses.iter().zip(&row.cells) {
            let place = before.nemeses.iter().position(|old| old == nemesis);
            let Some(old_cell) = place.and_then(|place| old_row.cells.get(place)) else { continue };
            for kept in cell.properties.iter().filter(|kept| kept.claimed) {
                let old = old_cell.properties.iter().find(|old| old.checker == kept.checker);
                let outcomes = old.map(|old| &old.outcomes);
                let (Some(outcomes), Some(old), Some(new)) =
                    (outcomes, outcomes.and_then(Outcomes::outcome), kept.outcomes.outcome())
                else {
                    continue;
                };
                changes.compared += 1;
                let (name, _) = property(&kept.checker);
                let (was, is) = (rate(outcomes), rate(&kept.outcomes));
                let what = format!("{} under {nemesis}: {name}", now.label(row));
                match (old, new) {
                    (Outcome::Valid, Outcome::Violation) => changes.worse.push(format!(
                        "{what} held, and is violated in {is}, before in {was}{on}: {}",
                        kept.summary
                    )),
                    (Outcome::Violation, Outcome::Valid) => {
                        changes.better.push(format!("{what} was violated in {was}, and is now in {is}{on}"));
                    }
                    (Outcome::Valid | Outcome::Violation, Outcome::Unknown | Outcome::Vacuous) => {
                        changes.open.push(format!("{what} was {old}, and is {new}: {}", kept.summary));
                    }
                    _ => {}
                }
            }
        }
    }
    changes
}

impl Changes {
    /// Each with a word in front; one line if nothing changed.
    pub fn lines(&self) -> Vec<String> {
        let with = |word: &'static str, lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| format!("{word}  {line}")).collect()
        };
        let mut lines = with("worse ", &self.worse);
        lines.extend(with("open  ", &self.open));
        lines.extend(with("better", &self.better));
        if lines.is_empty() {
            lines.push(format!("nothing changed since the baseline: {} properties compared", self.compared));
        }
        lines
    }
}
