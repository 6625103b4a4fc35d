//! The frame of every critical section: draw a key, acquire, work, release, wait.

use crate::{Op, Script, Settings, Step, key_name};
use fencepost_history::{Completion, Stream, f};
use rand::Rng;
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// What happens between acquire and release: a list of steps made anew for each section from the last completion.
pub(crate) trait Work: Send {
    /// Called once the lock is held, and then after each of its steps, with how that ended (none after a wait).
    /// `None` means that the work is over and the lock is to be released.
    fn next(&mut self, last: Option<&Completion>) -> Option<Do>;
}

/// A step of the work; the frame adds the key.
pub(crate) enum Do {
    Op(&'static str, Value),
    Wait(Duration),
}

enum At {
    Outside,
    Acquiring,
    Working,
    Releasing,
}

/// A process that runs critical sections one after the other.
pub(crate) struct Sections<W> {
    settings: Settings,
    random: Stream,
    begin: fn(&Settings) -> W,
    work: W,
    key: Cow<'static, str>,
    at: At,
}

impl<W: Work> Sections<W> {
    pub(crate) fn new(settings: &Settings, random: Stream, begin: fn(&Settings) -> W) -> Sections<W> {
        let work = begin(settings);
        Sections { settings: settings.clone(), random, begin, work, key: Cow::Borrowed(""), at: At::Outside }
    }

    fn op(&self, f: &'static str, value: Value) -> Step {
        Step::Do(Op { f, key: self.key.clone(), value })
    }

    fn acquire(&mut self) -> Step {
        self.key = Cow::Owned(key_name(self.random.random_range(0..self.settings.keys)));
        self.at = At::Acquiring;
        self.op(f::ACQUIRE, Value::Null)
    }

    /// Waits from nothing to twice the mean, so that processes do not march in step.
    fn rest(&mut self, closing: bool) -> Step {
        if closing {
            return Step::Done;
        }
        self.at = At::Outside;
        let mean = self.settings.pause.as_secs_f64();
        if mean == 0.0 {
            return self.acquire();
        }
        Step::Wait(Duration::from_secs_f64(self.random.random_range(0.0..=2.0 * mean)))
    }

    fn work_on(&mut self, last: Option<&Completion>) -> Step {
        match self.work.next(last) {
            Some(Do::Op(f, value)) => self.op(f, value),
            Some(Do::Wait(time)) => Step::Wait(time),
            None => {
                self.at = At::Releasing;
                self.op(f::RELEASE, Value::Null)
            }
        }
    }
}

impl<W: Work> Script for Sections<W> {
    fn next(&mut self, last: Option<&Completion>, closing: bool) -> Step {
        match self.at {
            At::Outside if closing => Step::Done,
            At::Outside => self.acquire(),
            At::Acquiring => match last {
                Some(Completion::Ok(_)) => {
                    self.at = At::Working;
                    self.work = (self.begin)(&self.settings);
                    self.work_on(None)
                }
                // Not held, or held by a process number that is never used again.
                _ => self.rest(closing),
            },
            At::Working => self.work_on(last),
            At::Releasing => self.rest(closing),
        }
    }
}
