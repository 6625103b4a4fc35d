use fencepost_checker::RunVerdict;
use fencepost_report::hunt::SituationCount;
use std::collections::BTreeMap;

/// A situation: a fault, the role of its target, and the phase of the lock's life in which it came.
pub type SituationName = String;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleCoverage {
    /// The possible situations, each with how often it was met and how near to a violation.
    pub situations: BTreeMap<SituationName, SituationCount>,
    /// The smallest distance to a violation, and what happened, in a sentence.
    pub miss: Option<(f64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownViolation {
    None,
    /// One that no schedule had shown.
    New,
    Known,
}

impl ScheduleCoverage {
    /// What a judged run teaches.
    pub fn of(verdict: &RunVerdict) -> ScheduleCoverage {
        let mut coverage = ScheduleCoverage::default();
        for (situation, reached) in verdict.coverage.iter().flat_map(|of_run| of_run.situations()) {
            let (role, phase) = (situation.role.words(), situation.phase.words());
            let nearest_ms = reached.nearest_ns.map(|ns| ns as f64 / 1e6);
            coverage.see(&situation.fault, role, phase, reached.times, nearest_ms);
        }
        // A write that was still on its way at the next grant proves nothing, and is no distance.
        let miss = verdict.nearest_miss.as_ref().filter(|miss| miss.distance_ns >= 0);
        coverage.miss = miss.map(|miss| (miss.distance_ns as f64 / 1e6, miss.sentence()));
        coverage
    }

    /// Notes that a situation was possible, and met so often.
    pub fn see(&mut self, fault: &str, role: &str, phase: &str, times: u64, nearest_ms: Option<f64>) {
        let name = format!("{fault} / {role} / {phase}");
        let seen = self.situations.entry(name).or_insert_with(|| SituationCount {
            fault: fault.to_owned(),
            role: role.to_owned(),
            phase: phase.to_owned(),
            times: 0,
            nearest_ms: None,
            first_ms: None,
        });
        seen.times += times;
        seen.nearest_ms = seen.nearest_ms.into_iter().chain(nearest_ms).min_by(f64::total_cmp);
    }

    pub fn covered(&self) -> impl Iterator<Item = (&SituationName, &SituationCount)> {
        self.situations.iter().filter(|(_, seen)| seen.times > 0)
    }
}
