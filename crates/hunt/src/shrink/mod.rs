//! Makes a schedule smaller for as long as its violation still comes in eight of ten plays. The first
//! candidate has no fault at all: what comes without any was caused by none. Each step leaves something out
//! or makes something less, the greatest first. A candidate is played until it is certain whether it reaches
//! the goal, and given up after two plays without the violation, or three of more.

mod candidates;
mod peace;
mod round;
mod size;
mod step;
mod steps;
#[cfg(test)]
mod tests;
mod trial;

use crate::player::Player;
use crate::schedule::Schedule;
use anyhow::{Result, bail};
use fencepost_campaign::Played;
use fencepost_checker::Violation;
use fencepost_engine::Stop;
use fencepost_report::Rate;
use fencepost_report::findings::Size;
use peace::Peace;
pub(crate) use peace::plays_to_show;
pub use size::size_of;
use std::time::Instant;
use step::ENDED_EARLY;
pub use step::Step;
use steps::ShrinkSearch;
use trial::{GOAL, Trial, TrialOutcome};

/// Plays of a schedule after which its violation counts as rare where none of them shows it.
pub const PLAYS: usize = GOAL.plays;

pub enum ShrinkOutcome {
    Smaller(Box<Shrunk>),
    /// The violation came in no play of the schedule itself.
    Rare,
    /// The time was over after so many plays of the schedule itself, none with the violation.
    OutOfTime(usize),
}

/// How much may be spent.
#[derive(Clone, Copy)]
pub struct ShrinkBudget<'a> {
    /// Plays side by side.
    pub jobs: usize,
    /// No play begins after this.
    pub until: Option<Instant>,
    pub stop: &'a Stop,
    /// Whether other work waits, so that it ends with what is small enough.
    pub hurries: &'a (dyn Fn() -> bool + Sync),
}

/// The smallest schedule that was found.
pub struct Shrunk {
    pub schedule: Schedule,
    pub before: Size,
    pub after: Size,
    /// How often it showed the violation when it was played once more.
    pub rate: Rate,
    pub example: Played,
    pub plays: usize,
    /// False where the time was up, or Ctrl-C came, before all was tried.
    pub complete: bool,
}

/// Makes a schedule smaller while the violation comes; `tell`: after each. Errors: no play succeeds.
pub async fn shrink(
    schedule: &Schedule,
    violation: &Violation,
    player: &dyn Player,
    budget: ShrinkBudget<'_>,
    tell: &mut (dyn FnMut(&Step) + Send),
) -> Result<ShrinkOutcome> {
    schedule.spec()?;
    let ShrinkBudget { jobs, until, stop, hurries } = budget;
    let mut trial = Trial { player, violation, jobs, stop, until, plays: 0 };
    let mut peace = Peace::default();
    let (base, outcome, goal) = match peace.try_first(schedule, &mut trial, tell).await {
        Some(found) => found,
        None => match begin(schedule, &mut trial, tell).await? {
            ShrinkBegin::With(begun) => *begun,
            ShrinkBegin::Not(outcome) => return Ok(outcome),
        },
    };
    let mut search = ShrinkSearch::new((base, outcome, goal), peace, trial, hurries, tell);
    let complete = search.run().await;
    let (schedule_found, outcome) = search.confirmed().await;
    let plays = search.trial.plays;
    search.discard();
    let Some(example) = outcome.example else { bail!("no play shows the violation any more") };
    Ok(ShrinkOutcome::Smaller(Box::new(Shrunk {
        before: size_of(schedule),
        after: size_of(&schedule_found),
        schedule: schedule_found,
        rate: outcome.rate,
        example,
        plays,
        complete,
    })))
}

enum ShrinkBegin {
    With(Box<(Schedule, TrialOutcome, trial::Goal)>),
    Not(ShrinkOutcome),
}

/// The schedule to begin with, and the goal: that of its own rate where it is below the usual goal.
async fn begin(
    schedule: &Schedule,
    trial: &mut Trial<'_>,
    tell: &mut (dyn FnMut(&Step) + Send),
) -> Result<ShrinkBegin> {
    // A run that ends at the first overlap is shorter. Other violations are seen only at its end.
    if ENDED_EARLY.contains(&trial.violation.checker.as_str()) && !schedule.options.fail_fast {
        let mut early = schedule.clone();
        early.options.fail_fast = true;
        let (kept, outcome) = trial.test(&early, GOAL).await;
        tell(&Step { tried: "ended at the first violation".to_owned(), kept, rate: outcome.rate });
        if kept {
            return Ok(ShrinkBegin::With(Box::new((early, outcome, GOAL))));
        }
        outcome.discard();
    }
    let mut outcome = TrialOutcome::default();
    trial.measure(schedule, &mut outcome, GOAL.plays).await;
    let rate = outcome.rate;
    let goal = trial::Goal { needed: rate.violations.min(GOAL.needed), plays: GOAL.plays };
    tell(&Step { tried: "the run itself".to_owned(), kept: rate.violations > 0, rate });
    if rate.violations == 0 {
        if trial.stop.reason().is_some() {
            bail!("interrupted before the violation came again");
        }
        if outcome.failed.len() == rate.plays && rate.plays > 0 {
            bail!("no play of the run came to a verdict: {}", outcome.failed[0]);
        }
        return Ok(ShrinkBegin::Not(match rate.plays {
            PLAYS => ShrinkOutcome::Rare,
            plays => ShrinkOutcome::OutOfTime(plays),
        }));
    }
    Ok(ShrinkBegin::With(Box::new((schedule.clone(), outcome, goal))))
}
