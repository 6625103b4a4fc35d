//! The first check: whether the lock works at all, before any fault.

use super::seen_violation::{EXCLUSION, SeenViolation, seen_violations};
use super::whole_seconds::{PLAYS, only_at_fractions};
use crate::player::Player;
use crate::schedule::Schedule;
use crate::search::{DrawnOptions, with_ttl};
use anyhow::Result;
use fencepost_campaign::Played;
use fencepost_checker::Outcome;
use fencepost_engine::{RunOptions, RunSpec};
use fencepost_history::{Kind, Lease, LockFacts, Seed, TimeSpan, f};
use fencepost_nemesis::Plan;

/// How long the lock may take to grant anything.
pub const PATIENCE: TimeSpan = TimeSpan::from_secs(10);

/// So many grants without a violation are enough.
const GRANTS: u64 = 15;

/// The defaults: keys are granted side by side, so the check is short; processes compete for each key.
const KEYS: usize = 3;
const PROCESSES: usize = 3 * KEYS;

/// TTLs to try where the user chose none and the shortest grants nothing: some libraries refuse short ones.
const LONGER_TTLS: [TimeSpan; 2] = [TimeSpan::from_secs(1), TimeSpan::from_secs(5)];

pub enum FirstCheck {
    Works,
    /// It grants, and what looks broken is this machine's failure.
    BusyMachine,
    Broken(Box<(Schedule, Played, Vec<SeenViolation>)>),
    /// It granted nothing, so nothing was tested: one sentence, from "without any fault" on.
    Silent(String),
}

pub struct FirstChecked {
    pub check: FirstCheck,
    /// The TTL at which the lock works, where it is not the requested one, and a sentence on why.
    pub other_ttl: Option<(TimeSpan, String)>,
    /// Whether its clients announce that they prolong what they hold.
    pub renews: bool,
}

/// How the lock is checked without faults. `drawn` are the options that the user left open.
pub struct WithoutFaults<'a> {
    pub drawn: DrawnOptions,
    pub seed: Seed,
    pub player: &'a dyn Player,
}

impl WithoutFaults<'_> {
    /// Plays a schedule without faults, and where the lock grants nothing at a TTL that was left open, the
    /// same with longer ones. Errors: Fencepost's, the environment's.
    pub async fn check(&self, options: &RunOptions) -> Result<FirstChecked> {
        let drawn = self.drawn;
        let first = self.once(options).await?;
        let (options, once) = match &first.check {
            FirstCheck::Silent(why) if drawn.ttl => match self.longer(options).await? {
                None => return Ok(first),
                Some((longer, once)) => {
                    let why = format!("with a TTL of {} the lock granted nothing {why}", options.ttl);
                    let why = format!("{why}; with {} it does, so this hunt uses that", longer.ttl);
                    let other_ttl = Some((longer.ttl, why));
                    (longer, FirstChecked { other_ttl, ..once })
                }
            },
            _ => (options.clone(), first),
        };
        let is_open = drawn.ttl && once.other_ttl.is_none();
        match &once.check {
            FirstCheck::Works if drawn.concurrency && drawn.keys => {
                let check = self.crowded(&options).await?;
                Ok(FirstChecked { check, ..once })
            }
            FirstCheck::Broken(broken) if is_open && is_counted_in_seconds(&options) => {
                let checker = &broken.2[0].signature.checker;
                let at_whole = whole_seconds(&options);
                let schedules = [&options, &at_whole].map(|options| self.schedule(options));
                if !only_at_fractions(schedules, checker, self.player).await? {
                    return Ok(once);
                }
                let renews = once.renews;
                let other_ttl = Some((at_whole.ttl, once.dismissed(&options)));
                Ok(FirstChecked { check: FirstCheck::Works, other_ttl, renews })
            }
            _ => Ok(once),
        }
    }

    /// The same with the first longer TTL that grants anything; none where none does.
    async fn longer(&self, options: &RunOptions) -> Result<Option<(RunOptions, FirstChecked)>> {
        for ttl in LONGER_TTLS.into_iter().filter(|ttl| *ttl > options.ttl) {
            let longer = with_ttl(options.clone(), ttl);
            let once = self.once(&longer).await?;
            if !matches!(once.check, FirstCheck::Silent(_)) {
                return Ok(Some((longer, once)));
            }
        }
        Ok(None)
    }

    /// Plays the same with many impatient processes. Only violations of exclusion count: waits are chance.
    async fn crowded(&self, options: &RunOptions) -> Result<FirstCheck> {
        let options = RunOptions {
            time_limit: TimeSpan(options.ttl.0 * CROWDED_TTLS),
            acquire_timeout: TimeSpan(options.ttl.0.mul_f64(IMPATIENCE_TTLS)),
            acquisitions: Some(GRANTS),
            keys: 1,
            concurrency: CROWD.max(options.clients),
            seed: Some(Seed(self.seed.0 ^ 2)),
            ..options.clone()
        };
        let schedule = Schedule::new(options, Plan::default());
        let played = self.player.play(&schedule).await?;
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

    fn schedule(&self, options: &RunOptions) -> Schedule {
        let mut options = RunOptions {
            time_limit: PATIENCE,
            acquisitions: Some(GRANTS),
            seed: Some(Seed(self.seed.0 ^ 1)),
            ..options.clone()
        };
        if self.drawn.keys && self.drawn.concurrency {
            (options.keys, options.concurrency) = (KEYS, PROCESSES);
        }
        Schedule::new(options, Plan::default())
    }

    async fn once(&self, options: &RunOptions) -> Result<FirstChecked> {
        let schedule = self.schedule(options);
        let played = self.player.play(&schedule).await?;
        let facts = played.history.iter().find_map(LockFacts::read);
        let renews = facts.is_some_and(|facts| facts.can("extend"));
        Ok(FirstChecked { check: first_check(schedule, played), other_ttl: None, renews })
    }
}

/// Whether a lock that is broken at this TTL may count in whole seconds: its lease ends by time, the TTL has
/// a fraction, and the lock does not say which TTLs it takes. No TTL explains other violations.
fn is_counted_in_seconds(options: &RunOptions) -> bool {
    let Ok(spec) = RunSpec::with_plan(options.clone(), Plan::default()) else { return false };
    let says = spec.lock.recipe.program().is_some_and(|program| program.ttl_step.is_some());
    let ends_by_time = spec.lock.capabilities(&options.lock_options).lease == Lease::Ttl;
    ends_by_time && !says && options.ttl != whole_seconds(options).ttl
}

fn whole_seconds(options: &RunOptions) -> RunOptions {
    with_ttl(options.clone(), TimeSpan::from_secs(options.ttl.millis().div_ceil(1000)))
}

impl FirstChecked {
    /// Says what is wrong at this TTL and not at whole seconds; removes the run that shows it.
    fn dismissed(self, options: &RunOptions) -> String {
        let sentence = match self.check {
            FirstCheck::Broken(broken) => {
                let (_, played, seen) = *broken;
                played.discard();
                seen.into_iter().next().map_or(String::new(), |seen| seen.sentence)
            }
            _ => String::new(),
        };
        let whole = whole_seconds(options).ttl;
        format!(
            "with a TTL of {} the lock is broken without any fault in each of {PLAYS} plays ({sentence}), and with {whole} in none of \
             {PLAYS}: it counts in whole seconds, so this hunt uses {whole}. Where the lock promises other TTLs, that is its mistake; \
             where it does not, say `ttl-step = \"1s\"` in lock.toml",
            options.ttl
        )
    }
}

/// A crowd for one key with little patience, so that many give up: what a library does then needs no fault.
const CROWD: usize = 6;
const IMPATIENCE_TTLS: f64 = 0.3;
const CROWDED_TTLS: u32 = 6;

const OWNERSHIP: &str = "ownership";

fn first_check(schedule: Schedule, played: Played) -> FirstCheck {
    let acquires = || played.history.iter().filter(|event| event.f == f::ACQUIRE);
    // Where every attempt fails, nothing was tested, whatever a checker says of a lock that is always taken.
    if !acquires().any(|event| event.kind == Kind::Ok) {
        let reason = acquires().filter_map(|event| event.error.as_deref()).next_back();
        let reason = reason.map_or("no acquire was answered".to_owned(), |reason| {
            format!("the last attempt failed with: {reason}")
        });
        played.discard();
        return FirstCheck::Silent(format!("within {PATIENCE}, without any fault; {reason}"));
    }
    if played.verdict.outcome != Outcome::Violation {
        return FirstCheck::Works;
    }
    let seen = seen_violations(&played);
    if seen.iter().all(SeenViolation::is_of_a_busy_machine) {
        played.discard();
        return FirstCheck::BusyMachine;
    }
    FirstCheck::Broken(Box::new((schedule, played, seen)))
}
