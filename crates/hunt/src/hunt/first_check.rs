//! The first check: whether the lock works at all, before any fault is tried.

use crate::player::Player;
use crate::schedule::Schedule;
use crate::search::DrawnOptions;
use anyhow::Result;
use fencepost_campaign::Played;
use fencepost_checker::Outcome;
use fencepost_engine::RunOptions;
use fencepost_history::{Kind, Seed, TimeSpan, f};
use fencepost_nemesis::Plan;

/// How long the lock may take to grant anything.
pub const PATIENCE: TimeSpan = TimeSpan::from_secs(10);

/// So many grants without a violation are enough.
const GRANTS: u64 = 15;

/// Where the user left it open: keys, which are granted side by side, so that the check takes seconds also
/// where sections are long; and processes for each of them to compete.
const KEYS: usize = 3;
const PROCESSES: usize = 3 * KEYS;

/// The result of the first check.
pub enum FirstCheck {
    /// It grants, and nothing is broken.
    Works,
    /// It is broken without any fault.
    Broken(Box<(Schedule, Played)>),
    /// It granted nothing: one sentence.
    Silent(String),
}

/// Plays a schedule without faults. `drawn` are the options that the user left open.
///
/// # Errors
/// Fencepost or the environment failed.
pub async fn check_without_faults(
    options: &RunOptions,
    drawn: DrawnOptions,
    seed: Seed,
    player: &dyn Player,
) -> Result<FirstCheck> {
    let mut options = RunOptions {
        time_limit: PATIENCE,
        acquisitions: Some(GRANTS),
        seed: Some(Seed(seed.0 ^ 1)),
        ..options.clone()
    };
    if drawn.keys && drawn.concurrency {
        (options.keys, options.concurrency) = (KEYS, PROCESSES);
    }
    let schedule = Schedule::new(options, Plan::default());
    let played = player.play(&schedule).await?;
    if played.verdict.outcome == Outcome::Violation {
        return Ok(FirstCheck::Broken(Box::new((schedule, played))));
    }
    let acquires = || played.history.iter().filter(|event| event.f == f::ACQUIRE);
    if acquires().any(|event| event.kind == Kind::Ok) {
        return Ok(FirstCheck::Works);
    }
    let reason = acquires().filter_map(|event| event.error.as_deref()).next_back();
    let reason =
        reason.map_or("no acquire was answered".to_owned(), |reason| format!("the last error: {reason}"));
    Ok(FirstCheck::Silent(format!(
        "the lock {} granted nothing within {PATIENCE}, without any fault; {reason}",
        schedule.options.lock
    )))
}
