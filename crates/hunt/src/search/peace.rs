//! Schedules without faults that last long enough to judge who gets the lock: a free lock that stays wanted,
//! a process that never gets it, and two keys that are one lock show without any fault.

use super::space::Space;
use super::ttl::ACQUIRE_TTLS;
use crate::schedule::Schedule;
use fencepost_engine::{RunOptions, SectionLength};
use fencepost_history::{Seed, Stream, TimeSpan};
use fencepost_nemesis::Plan;
use rand::RngExt;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeacePlay {
    /// Many processes want one key, some of them in vain: who gets it, and how long it stays free.
    Crowd,
    /// As many keys as processes: which of them are ever held at once.
    Keys,
    /// Two patient processes pass the lock on as fast as they can: one may begin to wait as the other lets go.
    PassedOn,
}

const CLIENTS: usize = 4;
const PROCESSES: usize = 12;

/// With twelve keys some names have the same beginning (`k1` and `k10`), and others the same end (`k0` and
/// `k10`): a lock that looks at a part of the name takes them for one.
const KEYS: usize = 12;

/// How long a process of the crowd holds the lock and waits for it: about one of ten acquires is in vain.
const CROWD_HOLDS_TTLS: f64 = 0.1;
const CROWD_WAITS_TTLS: u32 = 1;

/// How long a process of two holds the lock at most, and how often it is passed on: so often that a waiter
/// looks, sees it held, and begins to wait only once it is free.
const PASSED_ON_AFTER: Duration = Duration::from_millis(6);
const PASSED_ON: u64 = 400;
const PASSED_ON_WAITS_MORE: Duration = Duration::from_secs(2);

/// How long a process holds one of many keys: others are wanted meanwhile, and many turns fit in.
const KEY_HELD: Duration = Duration::from_millis(100);
const KEY_HELD_TTLS: f64 = 0.2;

/// The checker's least bound for a lock that stays free, and for a process that tries.
const BOUND_MIN: Duration = Duration::from_secs(5);
const IDLE_MORE: Duration = Duration::from_secs(1);

/// What begins in the first half of a schedule is seen: it lasts for twice the bound.
const BOUNDS: u32 = 2;

impl Space {
    /// How long a free lock may be wanted in vain before that is a violation.
    pub(super) fn idle_bound(&self) -> Duration {
        BOUND_MIN.max(2 * self.ttl() + IDLE_MORE)
    }

    pub(super) fn peace_plays(&self) -> Vec<PeacePlay> {
        let has_keys = self.drawn.keys && self.drawn.concurrency;
        let has_two = self.drawn.concurrency && self.drawn.clients && self.drawn.hold;
        let fits = |play: &PeacePlay| match play {
            PeacePlay::Crowd => true,
            PeacePlay::Keys => has_keys,
            PeacePlay::PassedOn => has_two,
        };
        [PeacePlay::Crowd, PeacePlay::Keys, PeacePlay::PassedOn].into_iter().filter(fits).collect()
    }

    pub(super) fn without_faults(&self, play: PeacePlay, most: Duration, random: &mut Stream) -> Schedule {
        let ttl = self.ttl();
        let mut options = RunOptions {
            seed: Some(Seed(random.random_range(0..1 << 53))),
            acquisitions: (play == PeacePlay::PassedOn).then_some(PASSED_ON),
            ..self.base.clone()
        };
        let (keys, hold) = match play {
            PeacePlay::Crowd => (1, ttl.mul_f64(CROWD_HOLDS_TTLS)),
            PeacePlay::Keys => (KEYS, KEY_HELD.min(ttl.mul_f64(KEY_HELD_TTLS))),
            PeacePlay::PassedOn => (1, PASSED_ON_AFTER),
        };
        let (clients, processes) = if play == PeacePlay::PassedOn { (2, 2) } else { (CLIENTS, PROCESSES) };
        if self.drawn.clients {
            options.clients = clients;
        }
        if self.drawn.concurrency {
            options.concurrency = processes.max(options.clients);
        }
        if self.drawn.keys {
            options.keys = keys;
        }
        if self.drawn.hold {
            options.hold = Some(TimeSpan(hold).into());
        }
        if play == PeacePlay::PassedOn {
            options.hold =
                Some(SectionLength { shortest: TimeSpan::from_millis(0), longest: TimeSpan(hold) });
            options.acquire_timeout = TimeSpan(self.idle_bound() + PASSED_ON_WAITS_MORE);
        }
        if play == PeacePlay::Crowd && options.acquire_timeout.0 == ttl * ACQUIRE_TTLS {
            options.acquire_timeout = TimeSpan(ttl * CROWD_WAITS_TTLS);
        }
        let bound = match play {
            // A waiter that sleeps beside a free lock is seen once it gives up.
            PeacePlay::PassedOn => self.idle_bound() + PASSED_ON_WAITS_MORE,
            _ => BOUND_MIN.max(2 * (ttl + options.acquire_timeout.0)).max(self.idle_bound()),
        };
        options.time_limit = TimeSpan((bound * BOUNDS).min(most));
        Schedule::new(options, Plan::default())
    }
}
