//! The first check: whether the lock works at all, before any fault is tried.

use super::seen_violation::{EXCLUSION, SeenViolation, seen_violations};
use crate::player::Player;
use crate::schedule::Schedule;
use crate::search::{DrawnOptions, with_ttl};
use anyhow::Result;
use fencepost_campaign::Played;
use fencepost_checker::Outcome;
use fencepost_engine::{RunOptions, RunSpec};
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

/// TTLs that are tried where the user left it open and the lock does not work at the shortest: many libraries
/// know whole seconds only, and some refuse short ones.
const LONGER_TTLS: [TimeSpan; 2] = [TimeSpan::from_secs(1), TimeSpan::from_secs(5)];

/// The result of the first check.
pub enum FirstCheck {
    /// It grants, and nothing is broken.
    Works,
    /// It grants, and what looks broken is this machine's failure.
    BusyMachine,
    /// It is broken without any fault.
    Broken(Box<(Schedule, Played, Vec<SeenViolation>)>),
    /// It granted nothing, so nothing was tested: one sentence, from "without any fault" on.
    Silent(String),
}

impl FirstCheck {
    fn goes_on(&self) -> bool {
        matches!(self, FirstCheck::Works | FirstCheck::BusyMachine)
    }

    /// What is wrong at this TTL, as a clause; removes what the check has left.
    fn dismiss(self) -> String {
        match self {
            FirstCheck::Broken(broken) => {
                let (_, played, seen) = *broken;
                played.discard();
                let sentence = seen.into_iter().next().map_or(String::new(), |seen| seen.sentence);
                format!("is broken without any fault: {sentence}")
            }
            FirstCheck::Silent(why) => format!("granted nothing {why}"),
            FirstCheck::Works | FirstCheck::BusyMachine => String::new(),
        }
    }
}

/// What came of the first check, and at which TTL.
pub struct Checked {
    pub check: FirstCheck,
    /// The TTL at which the lock works, where that is not the one that was asked for, and a sentence on why.
    pub other_ttl: Option<(TimeSpan, String)>,
}

/// Plays a schedule without faults, and where the lock does not work at a TTL that was left open, the same
/// with longer ones. `drawn` are the options that the user left open.
///
/// # Errors
/// Fencepost or the environment failed.
pub async fn check_without_faults(
    options: &RunOptions,
    drawn: DrawnOptions,
    seed: Seed,
    player: &dyn Player,
) -> Result<Checked> {
    let first = check_once(options, drawn, seed, player).await?;
    if matches!(first, FirstCheck::Works) && drawn.concurrency && drawn.keys {
        let check = check_crowded(options, seed, player).await?;
        return Ok(Checked { check, other_ttl: None });
    }
    let promises = matches!(first, FirstCheck::Broken(_)) && promises_ttl(options);
    if first.goes_on() || !drawn.ttl || promises {
        return Ok(Checked { check: first, other_ttl: None });
    }
    for ttl in LONGER_TTLS.into_iter().filter(|ttl| *ttl > options.ttl) {
        let check = check_once(&with_ttl(options.clone(), ttl), drawn, seed, player).await?;
        if check.goes_on() {
            let why = format!(
                "with a TTL of {} the lock {}; it works with {ttl}, so this hunt uses that: where it takes whole seconds only, \
                 say `ttl-step = \"1s\"` in lock.toml",
                options.ttl,
                first.dismiss()
            );
            return Ok(Checked { check, other_ttl: Some((ttl, why)) });
        }
        check.dismiss();
    }
    Ok(Checked { check: first, other_ttl: None })
}

/// Whether the lock says by itself which TTLs it takes: one at which it is broken is then no mistake of the
/// user's.
fn promises_ttl(options: &RunOptions) -> bool {
    let spec = RunSpec::with_plan(options.clone(), Plan::default());
    spec.is_ok_and(|spec| spec.lock.recipe.program().is_some_and(|program| program.ttl_step.is_some()))
}

/// So many processes compete for one key, with so little patience that many give up: what a library does
/// then, it does without any fault.
const CROWD: usize = 6;
const IMPATIENCE_TTLS: f64 = 0.3;
const CROWDED_TTLS: u32 = 6;

/// The checker of a lock that was removed by another.
const OWNERSHIP: &str = "ownership";

/// Plays the same with many processes that soon give up. Only a lock that was had twice, or removed by
/// another, counts: how long each of a crowd waits is chance.
async fn check_crowded(options: &RunOptions, seed: Seed, player: &dyn Player) -> Result<FirstCheck> {
    let options = RunOptions {
        time_limit: TimeSpan(options.ttl.0 * CROWDED_TTLS),
        acquire_timeout: TimeSpan(options.ttl.0.mul_f64(IMPATIENCE_TTLS)),
        acquisitions: Some(GRANTS),
        keys: 1,
        concurrency: CROWD.max(options.clients),
        seed: Some(Seed(seed.0 ^ 2)),
        ..options.clone()
    };
    let schedule = Schedule::new(options, Plan::default());
    let played = player.play(&schedule).await?;
    let mut seen = seen_violations(&played);
    seen.retain(|seen| {
        !seen.is_of_a_busy_machine() && [EXCLUSION, OWNERSHIP].contains(&seen.signature.checker.as_str())
    });
    if seen.is_empty() {
        played.discard();
        return Ok(FirstCheck::Works);
    }
    Ok(FirstCheck::Broken(Box::new((schedule, played, seen))))
}

async fn check_once(
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
    let acquires = || played.history.iter().filter(|event| event.f == f::ACQUIRE);
    // Where every attempt fails, nothing was tested, whatever a checker says of a lock that is always taken.
    if !acquires().any(|event| event.kind == Kind::Ok) {
        let reason = acquires().filter_map(|event| event.error.as_deref()).next_back();
        let reason = reason.map_or("no acquire was answered".to_owned(), |reason| {
            format!("the last attempt failed with: {reason}")
        });
        played.discard();
        return Ok(FirstCheck::Silent(format!("within {PATIENCE}, without any fault; {reason}")));
    }
    if played.verdict.outcome != Outcome::Violation {
        return Ok(FirstCheck::Works);
    }
    let seen = seen_violations(&played);
    if seen.iter().all(SeenViolation::is_of_a_busy_machine) {
        played.discard();
        return Ok(FirstCheck::BusyMachine);
    }
    Ok(FirstCheck::Broken(Box::new((schedule, played, seen))))
}
