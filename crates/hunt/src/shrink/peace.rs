//! Whether the violation comes without any fault. Then no fault caused it, though one may make it more
//! frequent. So this candidate is kept if the violation comes at all, in plays enough to show it.

use super::candidates::with_faults;
use super::step::{ENDED_EARLY, Step};
use super::trial::{GOAL, Goal, Trial, TrialOutcome};
use crate::schedule::Schedule;
use fencepost_engine::RunOptions;
use fencepost_report::Rate;

/// Classes of what only a fault can make of a holder on a machine that is fast enough.
const LATENESS: [&str; 4] = ["overstayed", "cut-off", "written-late", "written-after-loss"];

/// So many plays without any fault come first of all: what mostly comes without one shows in them.
const FIRST_PLAYS: usize = 4;

const PLAYS_MAX: usize = 30;

/// The chance that all plays miss what comes as often as before.
const MISSED: f64 = 0.01;

/// How many plays of something else show whether it, too, shows what came at this rate; fewest and most.
pub(crate) fn plays_to_show(rate: Rate, (fewest, most): (usize, usize)) -> usize {
    // One play more with it and one more without: none of few plays is certain.
    let share = (rate.violations + 1) as f64 / (rate.plays + 2) as f64;
    ((MISSED.ln() / (1.0 - share).ln()).ceil() as usize).clamp(fewest, most)
}

/// The candidates without faults, and how often each was played without the violation.
#[derive(Default)]
pub(super) struct Peace(Vec<(Schedule, usize)>);

/// A smaller schedule, what its plays showed, and the goal from here on.
pub(super) type Found = (Schedule, TrialOutcome, Goal);

impl Peace {
    /// Plays the schedule of a finding without its faults, before anything else.
    pub async fn try_first(
        &mut self,
        schedule: &Schedule,
        trial: &mut Trial<'_>,
        tell: &mut (dyn FnMut(&Step) + Send),
    ) -> Option<Found> {
        let mut early = schedule.clone();
        early.options.fail_fast |= ENDED_EARLY.contains(&trial.violation.checker.as_str());
        self.attempt(&early, GOAL, FIRST_PLAYS, trial, tell).await
    }

    /// Plays the smallest schedule so far without its faults, as often as its rate asks for.
    pub async fn try_again(
        &mut self,
        (best, rate, goal): (&Schedule, Rate, Goal),
        trial: &mut Trial<'_>,
        tell: &mut (dyn FnMut(&Step) + Send),
    ) -> Option<Found> {
        self.attempt(best, goal, plays_to_show(rate, (GOAL.plays, PLAYS_MAX)), trial, tell).await
    }

    async fn attempt(
        &mut self,
        schedule: &Schedule,
        goal: Goal,
        plays: usize,
        trial: &mut Trial<'_>,
        tell: &mut (dyn FnMut(&Step) + Send),
    ) -> Option<Found> {
        let none = with_faults(schedule, Vec::new());
        let known = self.0.iter().position(|(known, _)| is_same(known, &none));
        let before = known.map_or(0, |place| self.0[place].1);
        let is_lateness = LATENESS.contains(&trial.violation.class.as_str());
        if schedule.plan.faults.is_empty() || is_lateness || before >= plays || trial.is_over() {
            return None;
        }
        let mut outcome = TrialOutcome::default();
        trial.measure(&none, &mut outcome, plays - before).await;
        let kept = outcome.rate.violations > 0;
        if kept {
            trial.measure(&none, &mut outcome, GOAL.plays).await;
        }
        tell(&Step { tried: "no fault at all".to_owned(), kept, rate: outcome.rate });
        if kept {
            let needed = outcome.rate.violations.min(goal.needed);
            return Some((none, outcome, Goal { needed, plays: GOAL.plays }));
        }
        let played = before + outcome.rate.plays;
        outcome.discard();
        match known {
            Some(place) => self.0[place].1 = played,
            None => self.0.push((none, played)),
        }
        None
    }
}

fn is_same(one: &Schedule, other: &Schedule) -> bool {
    let options = RunOptions { fail_fast: other.options.fail_fast, ..one.options.clone() };
    Schedule { options, ..one.clone() } == *other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_violation_takes_more_plays_without_a_fault() {
        let plays = |violations, plays| plays_to_show(Rate { violations, plays }, (GOAL.plays, PLAYS_MAX));
        assert_eq!((plays(10, 10), plays(4, 10), plays(2, 10), plays(1, 10)), (10, 10, 17, 26));
    }
}
