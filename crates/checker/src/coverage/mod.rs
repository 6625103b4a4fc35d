//! Which situations the faults of a run brought about, of those that were possible. A **situation** is a
//! fault (by its nemesis), the role of the node that it hit ([`TargetRole`]), and the phase of the lock's
//! life ([`LockPhase`]) when the injection began; what each process did then is read from the history, and
//! nothing is assumed about clocks. Only a fault whose effect was observed covers situations; one on several
//! nodes, or with several keys, covers several.
//!
//! A client that holds one key and waits for another counts as a holder. A key is free while no process holds
//! it: a hold ends with the invocation of its release, with the notice that it was lost, or, if its process
//! is gone, when its lease has run out; while a release is not answered, the key is being released. A target
//! that is neither a known client, server nor storage covers nothing.

mod meetings;
mod moments;
mod possible;
mod situation;

pub use situation::{LockPhase, Situation, TargetRole};

use crate::distance::{Handover, handovers};
use crate::run_index::{Fault, RunIndex};
use meetings::{Meeting, meetings};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How often a situation was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// How many faults met it; 0 where it was only possible.
    pub times: u64,
    /// The smallest distance of a handover that such a fault may have had to do with, after it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest_ns: Option<i64>,
}

/// The situations of a run, or of many: those that were met, and those that could have been.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<SituationRow>", into = "Vec<SituationRow>")]
pub struct Coverage {
    situations: BTreeMap<Situation, Reached>,
}

#[derive(Clone, Serialize, Deserialize)]
struct SituationRow {
    #[serde(flatten)]
    situation: Situation,
    #[serde(flatten)]
    reached: Reached,
}

impl From<Vec<SituationRow>> for Coverage {
    fn from(rows: Vec<SituationRow>) -> Coverage {
        let mut coverage = Coverage::default();
        for SituationRow { situation, reached } in rows {
            coverage.add(&situation, reached);
        }
        coverage
    }
}

impl From<Coverage> for Vec<SituationRow> {
    fn from(coverage: Coverage) -> Vec<SituationRow> {
        let row = |(situation, reached)| SituationRow { situation, reached };
        coverage.situations.into_iter().map(row).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {} situations covered", self.covered(), self.possible())
    }
}

impl Coverage {
    pub fn of(run: &RunIndex) -> Coverage {
        let mut coverage = Coverage::default();
        for situation in possible::possible(run) {
            coverage.add(&situation, Reached::default());
        }
        let handovers = handovers(run);
        for Meeting { fault, situations } in meetings(run).into_iter().filter(|met| met.fault.effective) {
            let mut met: BTreeMap<&Situation, Option<i64>> = BTreeMap::new();
            for (situation, key) in &situations {
                let nearest = met.entry(situation).or_default();
                *nearest = least(*nearest, nearest_around(run, &handovers, fault, key));
            }
            for (situation, nearest_ns) in met {
                coverage.add(situation, Reached { times: 1, nearest_ns });
            }
        }
        coverage
    }

    /// Adds what another run, or many, covered and could have covered.
    pub fn merge(&mut self, other: &Coverage) {
        for (situation, reached) in &other.situations {
            self.add(situation, *reached);
        }
    }

    fn add(&mut self, situation: &Situation, reached: Reached) {
        let sum = self.situations.entry(situation.clone()).or_default();
        sum.times = sum.times.saturating_add(reached.times);
        sum.nearest_ns = least(sum.nearest_ns, reached.nearest_ns);
    }

    /// How many situations were met.
    pub fn covered(&self) -> usize {
        self.situations.values().filter(|reached| reached.times > 0).count()
    }

    /// How many situations were possible.
    pub fn possible(&self) -> usize {
        self.situations.len()
    }

    /// All possible situations, in order of fault, role and phase.
    pub fn situations(&self) -> impl Iterator<Item = (&Situation, &Reached)> {
        self.situations.iter()
    }

    /// How often a situation was met; none where it was not possible.
    pub fn reached(&self, situation: &Situation) -> Option<Reached> {
        self.situations.get(situation).copied()
    }

    pub fn beyond<'a>(&'a self, known: &'a Coverage) -> impl Iterator<Item = &'a Situation> {
        let is_known =
            |situation: &Situation| known.reached(situation).is_some_and(|reached| reached.times > 0);
        let covered = self.situations.iter().filter(|(_, reached)| reached.times > 0);
        covered.map(|(situation, _)| situation).filter(move |situation| !is_known(situation))
    }
}

/// The situations that each effective fault of a run met, by its number, in order of injection.
pub fn situations_of(run: &RunIndex) -> Vec<(u64, Vec<Situation>)> {
    let plain = |meeting: Meeting| {
        let mut situations: Vec<Situation> =
            meeting.situations.into_iter().map(|(situation, _)| situation).collect();
        situations.dedup();
        (meeting.fault.id, situations)
    };
    meetings(run).into_iter().map(plain).collect()
}

fn nearest_around(run: &RunIndex, handovers: &[Handover], fault: &Fault, key: &str) -> Option<i64> {
    let from = handovers.partition_point(|handover| run.holds[handover.second].from < fault.inject);
    let healed_ns = fault.healed_ns.unwrap_or(u64::MAX);
    let concerned = handovers[from..].iter().filter(|handover| {
        run.holds[handover.second].key == key && run.holds[handover.first].invoke_ns <= healed_ns
    });
    concerned.map(|handover| handover.distance_ns).min()
}

fn least(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
