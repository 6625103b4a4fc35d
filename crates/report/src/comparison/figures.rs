//! What came of a run, property by property, and the figures that a table of all runs shows of it.

use crate::runs::Judgement;
use fencepost_checker::{
    Costs, Coverage, Figures, Harm, LostAdditionsFigures, LostUpdatesFigures, Outcome, VacuousFigures,
    registry,
};

pub(super) const TEST_ITSELF: &str = VacuousFigures::CHECKER;

/// What came of a property in a run, and the sentence for it: nothing holds that was not put to the test.
pub fn outcome_of<'a>(checker: &str, judgement: &'a Judgement) -> Option<(Outcome, &'a str)> {
    let property = judgement.of_checker(checker)?;
    let untested = judgement.of_checker(TEST_ITSELF).filter(|test| test.outcome == Outcome::Vacuous);
    match untested {
        Some(test) if property.outcome == Outcome::Valid => Some((Outcome::Vacuous, &test.summary)),
        _ => Some((property.outcome, &property.summary)),
    }
}

/// What a table of all runs holds of a run's judgement, which is too large to be kept for many runs.
#[derive(Clone, Debug)]
pub struct RunFigures {
    outcomes: Vec<Option<Outcome>>,
    pub(super) harm: Option<Harm>,
    pub(super) lost: u64,
    pub(super) acknowledged: u64,
    pub(super) costs: Costs,
    pub(super) situations: Option<(usize, usize)>,
    pub(super) nearest_miss_ns: Option<i64>,
}

impl RunFigures {
    pub(super) fn of(judgement: &Judgement) -> RunFigures {
        let updates: LostUpdatesFigures = judgement.figures().unwrap_or_default();
        let additions: LostAdditionsFigures = judgement.figures().unwrap_or_default();
        let outcome = |name| outcome_of(name, judgement).map(|(outcome, _)| outcome);
        let situations = |coverage: &Coverage| (coverage.covered(), coverage.possible());
        RunFigures {
            outcomes: registry().iter().map(|checker| outcome(checker.name)).collect(),
            harm: judgement.harms.first().copied(),
            lost: updates.lost + additions.lost,
            acknowledged: updates.acknowledged + additions.acknowledged,
            costs: judgement.costs.clone(),
            situations: judgement.coverage.as_ref().map(situations),
            nearest_miss_ns: judgement.nearest_miss.as_ref().map(|miss| miss.distance_ns),
        }
    }

    pub(super) fn outcome(&self, checker: &str) -> Option<Outcome> {
        let place = registry().iter().position(|known| known.name == checker)?;
        *self.outcomes.get(place)?
    }
}
