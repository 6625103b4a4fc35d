use crate::player::Player;
use crate::schedule::Schedule;
use anyhow::Result;
use fencepost_campaign::Played;
use fencepost_checker::{Outcome, Violation};
use fencepost_engine::Stop;
use fencepost_report::Rate;
use futures_util::StreamExt;
use std::collections::BTreeMap;

/// What came of the plays of one schedule.
#[derive(Debug, Default)]
pub struct Replays {
    /// Plays with any violation, of those with a verdict.
    pub rate: Rate,
    pub violations: BTreeMap<Violation, usize>,
    /// Plays that tested nothing, or could not be decided.
    pub undecided: usize,
    /// A sentence each.
    pub failed: Vec<String>,
}

impl Replays {
    /// The exit code: 1 a violation came, 0 none did, 2 nothing could be tested.
    pub fn exit_code(&self) -> i32 {
        match self.rate {
            Rate { violations: 1.., .. } => 1,
            Rate { plays, .. } if plays > self.undecided => 0,
            _ => 2,
        }
    }

    fn add(&mut self, played: &Result<Played>) {
        match played {
            Ok(played) => {
                let outcome = played.verdict.outcome;
                self.rate.add(outcome == Outcome::Violation);
                self.undecided += usize::from([Outcome::Vacuous, Outcome::Unknown].contains(&outcome));
                for violation in Violation::all(&played.verdict) {
                    *self.violations.entry(violation).or_default() += 1;
                }
            }
            Err(error) => self.failed.push(format!("{error:#}")),
        }
    }
}

/// Plays the schedule `times` times, `jobs` at a time, until Ctrl-C; `ended` is called after each.
pub async fn replay(
    schedule: &Schedule,
    times: usize,
    jobs: usize,
    player: &dyn Player,
    stop: &Stop,
    mut ended: impl FnMut(usize, &Result<Played>),
) -> Replays {
    let plays = (0..times).map(|_| async {
        if stop.reason().is_some() {
            return None;
        }
        let played = player.play(schedule).await;
        (stop.reason().is_none() || played.is_ok()).then_some(played)
    });
    let mut replays = Replays::default();
    let mut plays = futures_util::stream::iter(plays).buffer_unordered(jobs.max(1));
    let mut number = 0;
    while let Some(played) = plays.next().await {
        let Some(played) = played else { continue };
        number += 1;
        replays.add(&played);
        ended(number, &played);
    }
    replays
}
