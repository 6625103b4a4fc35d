//! The schedules that taught something, and which of them is worth a change. Each situation keeps the one
//! that came nearest to a violation (an archive of elites, as in "Illuminating search spaces by mapping
//! elites", Mouret and Clune 2015). So the archive is never larger than the number of situations, and a
//! situation in which violations are easy to approach displaces no other.

use super::schedule_coverage::{ScheduleCoverage, SituationName};
use crate::schedule::Schedule;
use fencepost_history::Stream;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A schedule takes another's situation only if nearer by this share: real servers vary by milliseconds.
const NEARER: f64 = 0.8;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SituationRecord {
    pub covered: u64,
    /// The smallest distance to a violation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest_ms: Option<f64>,
    /// The schedule that it keeps.
    pub elite: u64,
}

/// A kept schedule's record of use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// How many schedules were made from it.
    pub children: u64,
    /// How many of these showed a known violation.
    pub repeats: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleOutcome {
    /// Situations that no schedule had covered.
    pub new: Vec<SituationName>,
    pub nearer: Vec<SituationName>,
    /// Schedules that no situation keeps any more.
    pub dropped: Vec<u64>,
}

impl ScheduleOutcome {
    /// Whether the schedule is kept.
    pub fn is_kept(&self) -> bool {
        !self.new.is_empty() || !self.nearer.is_empty()
    }
}

/// The kept schedules, by number.
#[derive(Clone, Debug, Default)]
pub struct ScheduleArchive {
    pub cells: BTreeMap<SituationName, SituationRecord>,
    pub kept: BTreeMap<u64, (Schedule, Use)>,
}

impl ScheduleArchive {
    /// Learns from a schedule. One that showed a violation (`violated`) is kept for new situations only: its
    /// distance would hide those that are still to be approached.
    pub fn learn(
        &mut self,
        number: u64,
        schedule: &Schedule,
        coverage: &ScheduleCoverage,
        violated: bool,
    ) -> ScheduleOutcome {
        let mut outcome = ScheduleOutcome::default();
        for (name, seen) in coverage.covered() {
            let distance = seen.nearest_ms.filter(|_| !violated);
            let is_new = !self.cells.contains_key(name);
            let cell = self
                .cells
                .entry(name.clone())
                .or_insert(SituationRecord { elite: number, ..SituationRecord::default() });
            cell.covered += 1;
            let nearer = is_nearer(distance, cell.nearest_ms);
            if is_new {
                outcome.new.push(name.clone());
            } else if nearer {
                outcome.nearer.push(name.clone());
            }
            if is_new || nearer {
                (cell.elite, cell.nearest_ms) = (number, distance.or(cell.nearest_ms));
            }
        }
        if outcome.is_kept() {
            self.kept.insert(number, (schedule.clone(), Use::default()));
        }
        outcome.dropped = self.drop_spent();
        outcome
    }

    /// Notes that a schedule was made from another, and whether that repeated a known violation.
    pub fn note_child(&mut self, parent: u64, repeats: bool) {
        if let Some((_, used)) = self.kept.get_mut(&parent) {
            used.children += 1;
            used.repeats += u64::from(repeats);
        }
    }

    fn drop_spent(&mut self) -> Vec<u64> {
        let elites: BTreeSet<u64> = self.cells.values().map(|cell| cell.elite).collect();
        let spent: Vec<u64> = self.kept.keys().copied().filter(|number| !elites.contains(number)).collect();
        for number in &spent {
            self.kept.remove(number);
        }
        spent
    }

    /// Draws a kept schedule: rather one of rare situations, one that came near, and one rarely changed.
    pub fn draw(&self, ttl_ms: f64, random: &mut Stream) -> Option<(u64, &Schedule)> {
        let mut weights: BTreeMap<u64, f64> = BTreeMap::new();
        for cell in self.cells.values() {
            *weights.entry(cell.elite).or_default() += cell.energy(ttl_ms);
        }
        let weighted: Vec<(u64, f64)> = weights
            .into_iter()
            .filter_map(|(number, energy)| Some((number, energy / self.kept.get(&number)?.1.staleness())))
            .collect();
        let mut left = random.random_range(0.0..1.0) * weighted.iter().map(|(_, weight)| weight).sum::<f64>();
        let drawn = weighted.iter().find(|(_, weight)| {
            left -= weight;
            left <= 0.0
        });
        let number = drawn.or(weighted.last())?.0;
        Some((number, &self.kept[&number].0))
    }
}

fn is_nearer(distance: Option<f64>, nearest: Option<f64>) -> bool {
    match (distance, nearest) {
        (Some(_), None) => true,
        (Some(distance), Some(nearest)) => distance < nearest * NEARER && nearest > 0.0,
        (None, _) => false,
    }
}

impl SituationRecord {
    /// Between 0 and 2: how rare the situation is, and how near to a violation its schedule came.
    fn energy(&self, ttl_ms: f64) -> f64 {
        let rare = 1.0 / self.covered.max(1) as f64;
        let near = self.nearest_ms.map_or(0.0, |ms| 1.0 / (1.0 + 8.0 * ms.max(0.0) / ttl_ms));
        rare + near
    }
}

impl Use {
    fn staleness(&self) -> f64 {
        1.0 + self.children as f64 / 4.0 + 2.0 * self.repeats as f64
    }
}
