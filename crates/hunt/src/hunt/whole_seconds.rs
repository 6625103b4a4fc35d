//! Whether a lock is broken only with TTLs that are no whole number of seconds. A library that counts in
//! whole seconds makes less of half a second, each time. A race does not care for the TTL and comes now and
//! then: one quiet play says nothing of it. So several plays of both TTLs have to agree.

use super::seen_violation::seen_violations;
use crate::player::Player;
use crate::schedule::Schedule;
use anyhow::Result;
use fencepost_campaign::Played;
use fencepost_engine::RunOptions;
use fencepost_history::{Kind, Seed, f};
use futures_util::future::join_all;

/// Plays with each of both TTLs. What comes at the same rate with both is taken for a matter of whole seconds
/// in 2 of 1000 hunts at most: a rate near a half, which four more plays show and five do not.
pub(super) const PLAYS: usize = 5;

/// Whether the TTL explains a violation of this checker: all plays of the schedule with a fraction show it,
/// and none with whole seconds shows any. An error where Fencepost or the environment failed.
pub(super) async fn only_at_fractions(
    [fraction, whole]: [Schedule; 2],
    checker: &str,
    player: &dyn Player,
) -> Result<bool> {
    // Most of what is broken shows with any TTL at once.
    if !is_quiet(player.play(&numbered(&whole, 0)).await?) {
        return Ok(false);
    }
    let both = |number| (numbered(&fraction, number), numbered(&whole, number));
    let others = join_all(
        (1..PLAYS)
            .map(both)
            .map(|(one, other)| async move { tokio::join!(player.play(&one), player.play(&other)) }),
    );
    let mut is_explained = true;
    for (at_fraction, at_whole) in others.await {
        // A play that failed explains nothing.
        is_explained &= at_fraction.is_ok_and(|played| shows(played, checker));
        is_explained &= at_whole.is_ok_and(is_quiet);
    }
    Ok(is_explained)
}

/// The same with other choices of the processes.
fn numbered(schedule: &Schedule, number: usize) -> Schedule {
    let seed = schedule.options.seed.map(|seed| Seed(seed.0 ^ ((number as u64 + 1) << 8)));
    Schedule { options: RunOptions { seed, ..schedule.options.clone() }, ..schedule.clone() }
}

/// Whether a run granted the lock and shows no violation but those of a busy machine.
fn is_quiet(played: Played) -> bool {
    let granted = played.history.iter().any(|event| event.f == f::ACQUIRE && event.kind == Kind::Ok);
    let quiet = granted && seen_violations(&played).iter().all(|seen| seen.is_of_a_busy_machine());
    played.discard();
    quiet
}

fn shows(played: Played, checker: &str) -> bool {
    let shows = seen_violations(&played).iter().any(|seen| seen.signature.checker == checker);
    played.discard();
    shows
}
