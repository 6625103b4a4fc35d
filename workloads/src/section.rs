//! The frame of every critical section: draw a key, acquire, work, release, wait.

use crate::workload::{Op, Script, Settings, Step, key_name};
use fencepost_history::{Completion, Stream, f};
use rand::RngExt;
use serde_json::{Value, json};
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
pub(crate) struct Sections<W, B> {
    settings: Settings,
    random: Stream,
    begin: B,
    work: Option<W>,
    request: Value,
    key: Cow<'static, str>,
    at: At,
}

impl<W: Work, B: FnMut(&Settings, &mut Stream) -> W + Send> Sections<W, B> {
    /// `begin` makes the work of each section.
    pub(crate) fn new(settings: &Settings, random: Stream, begin: B) -> Sections<W, B> {
        let request = if settings.reader { json!({"mode": "shared"}) } else { Value::Null };
        let (settings, key) = (settings.clone(), Cow::Borrowed(""));
        Sections { settings, random, begin, work: None, request, key, at: At::Outside }
    }

    /// Each acquire carries this.
    pub(crate) fn requesting(self, request: Value) -> Sections<W, B> {
        Sections { request, ..self }
    }

    fn op(&self, f: &'static str, value: Value) -> Step {
        Step::Do(Op { f, key: self.key.clone(), value })
    }

    fn acquire(&mut self) -> Step {
        self.key = Cow::Owned(key_name(self.random.random_range(0..self.settings.keys)));
        self.at = At::Acquiring;
        self.op(f::ACQUIRE, self.request.clone())
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
        match self.work.as_mut().and_then(|work| work.next(last)) {
            Some(Do::Op(f, value)) => self.op(f, value),
            Some(Do::Wait(time)) => Step::Wait(time),
            None => {
                self.at = At::Releasing;
                self.op(f::RELEASE, Value::Null)
            }
        }
    }
}

impl<W: Work, B: FnMut(&Settings, &mut Stream) -> W + Send> Script for Sections<W, B> {
    fn next(&mut self, last: Option<&Completion>, closing: bool) -> Step {
        match self.at {
            At::Outside if closing => Step::Done,
            At::Outside => self.acquire(),
            At::Acquiring => match last {
                Some(Completion::Ok(_)) => {
                    self.at = At::Working;
                    self.work = Some((self.begin)(&self.settings, &mut self.random));
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
