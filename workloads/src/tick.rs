//! `tick`: each key is a job that is to run once a tick. Every process has a clock of its own, behind by up
//! to a quarter of the time for which the lock is held at least; when a tick comes by that clock, the process
//! tries to acquire the lock, runs the job (it writes the tick), and keeps the lock until that time is over,
//! however soon the job was done. A process that was granted the lock later than half of that time after its
//! tick runs nothing. So a job that runs twice in a tick had a lock that was granted twice. Source:
//! `ShedLock`, whose `lockAtLeastFor` is there for clocks of nodes that differ.

use crate::lateness::Lateness;
use crate::length::Length;
use crate::workload::{Now, Op, Script, Settings, Step, Workload, key_name};
use fencepost_history::{AcquireArguments, Completion, LockKind, Millis, Stream, Tick, f};
use rand::RngExt;
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// What a drawn section keeps the lock for, in TTLs: a client that was ended must not shorten it.
const LEAST_TTLS: f64 = 0.5;
/// Together less than one: else a tick could still begin for one process when the lock is free again.
const BEHIND_MAX: f64 = 0.25;
const LATE_MAX: f64 = 0.5;

pub(crate) const TICKS: Workload = Workload {
    fits: |kind| matches!(kind, LockKind::Mutex | LockKind::Election | LockKind::Reentrant),
    ..Workload::new(
        "tick",
        "run a job once a tick: at each tick every process tries to acquire the lock, and the process that gets it keeps it for a while; clocks differ",
        script,
    )
};

fn script(settings: &Settings, process: u64, mut random: Stream) -> Box<dyn Script> {
    let least = match settings.length {
        Length::Fixed(length) | Length::Between(_, length) => length,
        Length::Drawn(drawn) => drawn.ttl.mul_f64(LEAST_TTLS),
    };
    let behind = least.mul_f64(random.random_range(0.0..=BEHIND_MAX));
    let (lateness, settings) = (Lateness::default(), settings.clone());
    Box::new(Scheduler { settings, process, least, behind, number: 0, lateness, at: At::Between })
}

struct Scheduler {
    settings: Settings,
    process: u64,
    least: Duration,
    behind: Duration,
    number: u64,
    lateness: Lateness,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Between,
    Due,
    Acquiring,
    Running,
    Releasing,
}

impl Scheduler {
    /// When a tick comes for this process. The lock of the tick before is free by then.
    fn due(&self, number: u64) -> Duration {
        let period_ns = 2 * self.least.as_nanos().max(1) as u64;
        Duration::from_nanos(period_ns.saturating_mul(number)) + self.behind
    }

    fn is_in_time(&self, now: Duration) -> bool {
        now <= self.due(self.number) + self.least.mul_f64(LATE_MAX)
    }

    fn wait_for_next(&mut self, now: Now) -> Step {
        if now.closing {
            return Step::Done;
        }
        let own_ns = now.time.saturating_sub(self.behind).as_nanos();
        self.number = (own_ns / (2 * self.least.as_nanos().max(1))) as u64 + 1;
        self.at = At::Due;
        Step::Wait(self.due(self.number).saturating_sub(now.time))
    }

    fn op(&self, f: &'static str, value: Value) -> Op {
        let job = (self.number % self.settings.keys as u64) as usize;
        Op { f, key: Cow::Owned(key_name(job)), value, note: Value::Null, time_limits: 1 }
    }

    fn acquire(&mut self) -> Step {
        self.at = At::Acquiring;
        let note = AcquireArguments {
            tick: Some(self.number),
            hold_ms: Some(Millis(self.least.as_millis() as f64)),
            write_at_ms: Some(Millis(0.0)),
            ..AcquireArguments::default()
        };
        Step::Do(Op { note: note.into(), ..self.op(f::ACQUIRE, Value::Null) })
    }

    fn release(&mut self) -> Step {
        self.at = At::Releasing;
        Step::Do(self.op(f::RELEASE, Value::Null))
    }

    /// The job was written, or the time is over for which the lock is kept.
    fn keep(&mut self, now: Now) -> Step {
        self.lateness.woke(now);
        if let Some(late) = self.lateness.overdue(now.time) {
            return Step::Abandon { key: self.op(f::RELEASE, Value::Null).key, late };
        }
        match self.lateness.wait_until(self.least, now) {
            Some(wait) => Step::Wait(wait),
            None => self.release(),
        }
    }
}

impl Script for Scheduler {
    fn next(&mut self, last: Option<&Completion>, now: Now) -> Step {
        match (self.at, last) {
            // A process that comes too late for its tick leaves it to the others.
            (At::Due, _) if !now.closing && self.is_in_time(now.time) => self.acquire(),
            (At::Acquiring, Some(Completion::Ok(_))) if now.closing || !self.is_in_time(now.time) => {
                self.release()
            }
            (At::Acquiring, Some(Completion::Ok(granted))) => {
                self.lateness = Lateness::of_grant(&self.settings.length, self.least, granted, now.time);
                self.at = At::Running;
                Step::Do(self.op(f::WRITE, Tick { number: self.number, process: self.process }.into()))
            }
            (At::Running, _) => self.keep(now),
            (At::Between | At::Due | At::Acquiring | At::Releasing, _) => self.wait_for_next(now),
        }
    }
}
