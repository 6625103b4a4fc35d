//! Whether a candidate still shows the violation often enough, with as few plays as possible.

use crate::player::Player;
use crate::schedule::Schedule;
use fencepost_campaign::Played;
use fencepost_checker::Violation;
use fencepost_engine::Stop;
use fencepost_report::Rate;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    pub needed: usize,
    pub plays: usize,
}

pub(super) const GOAL: Goal = Goal { needed: 8, plays: 10 };

/// A candidate whose first plays all lack the violation is given up: one of 25 at the goal's rate.
const SCREEN: usize = 2;

impl Goal {
    /// So many plays without the violation, and the goal is out of reach.
    fn too_many(self) -> usize {
        self.plays - self.needed + 1
    }

    fn decision(self, rate: Rate) -> Option<bool> {
        let without = rate.plays - rate.violations;
        let screened_out = self == GOAL && rate.violations == 0 && without >= SCREEN;
        if rate.violations >= self.needed {
            Some(true)
        } else if without >= self.too_many() || screened_out {
            Some(false)
        } else {
            None
        }
    }

    /// So many more plays are needed whatever they show.
    fn certainly_needed(self, rate: Rate) -> usize {
        let without = rate.plays - rate.violations;
        let screen = match self == GOAL && rate.violations == 0 {
            true => SCREEN.saturating_sub(without),
            false => usize::MAX,
        };
        (self.needed - rate.violations).min(self.too_many() - without).min(screen)
    }
}

#[derive(Debug, Default)]
pub(super) struct TrialOutcome {
    pub rate: Rate,
    /// When the violation was first complete in the plays that show it.
    pub times_ms: Vec<u64>,
    pub example: Option<Played>,
    pub failed: Vec<String>,
}

impl TrialOutcome {
    pub fn discard(self) {
        if let Some(example) = self.example {
            example.discard();
        }
    }
}

pub(super) struct Trial<'a> {
    pub player: &'a dyn Player,
    pub violation: &'a Violation,
    pub jobs: usize,
    pub stop: &'a Stop,
    pub until: Option<Instant>,
    pub plays: usize,
}

impl Trial<'_> {
    /// Whether no play would end in time any more, or Ctrl-C came.
    pub fn is_over(&self) -> bool {
        let ends = Instant::now() + self.player.usual_time();
        self.stop.reason().is_some() || self.until.is_some_and(|until| ends >= until)
    }

    /// Plays a candidate until the goal is reached or out of reach. No play begins that might not be needed.
    pub async fn test(&mut self, schedule: &Schedule, goal: Goal) -> (bool, TrialOutcome) {
        let mut outcome = TrialOutcome::default();
        let reached = self.play(schedule, &mut outcome, |rate, running| match goal.decision(rate) {
            Some(_) => 0,
            None => goal.certainly_needed(rate).saturating_sub(running),
        });
        reached.await;
        (goal.decision(outcome.rate) == Some(true), outcome)
    }

    /// Plays a schedule so many times in all, whatever comes of it.
    pub async fn measure(&mut self, schedule: &Schedule, outcome: &mut TrialOutcome, plays: usize) {
        self.play(schedule, outcome, |rate, running| plays.saturating_sub(rate.plays + running)).await;
    }

    /// Plays as long as `more` asks for plays, which is given the rate so far and how many are running.
    async fn play(
        &mut self,
        schedule: &Schedule,
        outcome: &mut TrialOutcome,
        more: impl Fn(Rate, usize) -> usize,
    ) {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < self.jobs.max(1) && !self.is_over() && more(outcome.rate, running.len()) > 0
            {
                running.push(self.player.play(schedule));
            }
            let Some(played) = running.next().await else { return };
            match played {
                Ok(played) => {
                    self.plays += 1;
                    outcome.add(played, self.violation);
                }
                Err(_) if self.stop.reason().is_some() => {}
                Err(error) => {
                    self.plays += 1;
                    outcome.rate.add(false);
                    outcome.failed.push(format!("{error:#}"));
                }
            }
        }
    }
}

impl TrialOutcome {
    fn add(&mut self, played: Played, violation: &Violation) {
        let first = violation.first_ns(&played.verdict);
        self.rate.add(first.is_some());
        let Some(first) = first else { return played.discard() };
        self.times_ms.push(first / 1_000_000);
        if let Some(before) = self.example.replace(played) {
            before.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_candidate_is_given_up_early_and_accepted_as_soon_as_it_can_be() {
        let decided = |violations, plays| GOAL.decision(Rate { violations, plays });
        assert_eq!(decided(0, 2), Some(false));
        assert_eq!((decided(1, 3), decided(1, 4)), (None, Some(false)));
        assert_eq!((decided(7, 9), decided(8, 8), decided(8, 10)), (None, Some(true), Some(true)));
        let weak = Goal { needed: 3, plays: 10 };
        assert_eq!(weak.decision(Rate { violations: 0, plays: 7 }), None);
        assert_eq!(weak.decision(Rate { violations: 0, plays: 8 }), Some(false));
    }

    proptest! {
        #[test]
        fn no_play_is_begun_that_might_not_be_needed(plays in prop::collection::vec(any::<bool>(), 10)) {
            let mut rate = Rate::default();
            let mut begun = 0;
            for (number, violation) in plays.into_iter().enumerate() {
                if GOAL.decision(rate).is_some() {
                    prop_assert!(begun <= number, "{begun} begun, {number} needed");
                    return Ok(());
                }
                begun = begun.max(number + GOAL.certainly_needed(rate));
                rate.add(violation);
            }
            prop_assert!(begun <= 10 && GOAL.decision(rate).is_some());
        }
    }
}
