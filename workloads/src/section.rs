//! The frame of every critical section: draw it, acquire, work, release, rest.

use crate::lateness::Lateness;
use crate::length::SectionPlan;
use crate::workload::{Now, Op, Script, Settings, Step, key_name};
use fencepost_history::{AcquireArguments, Completion, Mode, Name, Stream, f};
use rand::RngExt;
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// What happens between acquire and release: steps made anew for each section.
pub(crate) trait Work: Send {
    /// Called as the lock is held and after each step, with its end. `None`: the lock is released.
    fn next(&mut self, last: Option<&Completion>) -> Option<Do>;
}

pub(crate) enum Do {
    Op(&'static str, Value),
    /// On the second of the names that the section holds.
    OnOther(&'static str, Value),
    /// Goes on once the section has lasted for so long.
    Until(Duration),
}

enum At {
    Outside,
    Acquiring(SectionPlan),
    Working,
    Releasing,
}

pub(crate) struct Sections<W> {
    settings: Settings,
    random: Stream,
    begin: Begin<W>,
    work: Option<Box<dyn Work>>,
    lateness: Lateness,
    request: Value,
    key: Cow<'static, str>,
    names: usize,
    also: Vec<Name>,
    at: At,
    writes: bool,
}

type Begin<W> = Box<dyn FnMut(SectionPlan, &Value) -> W + Send>;

impl<W: Work + 'static> Sections<W> {
    /// `begin` makes the work of each section.
    pub(crate) fn new(
        settings: &Settings,
        random: Stream,
        mut begin: impl FnMut(SectionPlan) -> W + Send + 'static,
    ) -> Sections<W> {
        Sections::of_grants(settings, random, move |plan, _| begin(plan))
    }

    /// `begin` makes the work of each section, also by what its acquire answered.
    pub(crate) fn of_grants(
        settings: &Settings,
        random: Stream,
        begin: impl FnMut(SectionPlan, &Value) -> W + Send + 'static,
    ) -> Sections<W> {
        let request = if settings.reader {
            AcquireArguments { mode: Some(Mode::Shared), ..AcquireArguments::default() }.into()
        } else {
            Value::Null
        };
        let (settings, key) = (settings.clone(), Cow::Borrowed(""));
        let lateness = Lateness::default();
        Sections {
            settings,
            random,
            begin: Box::new(begin),
            work: None,
            lateness,
            request,
            key,
            names: 1,
            also: Vec::new(),
            at: At::Outside,
            writes: false,
        }
    }

    pub(crate) fn requesting(self, request: Value) -> Sections<W> {
        Sections { request, ..self }
    }

    pub(crate) fn writing(self, writes: bool) -> Sections<W> {
        Sections { writes, ..self }
    }

    /// Each section takes so many names at once, in any order.
    pub(crate) fn of_names(self, names: usize) -> Sections<W> {
        Sections { names, ..self }
    }

    fn op(&self, f: &'static str, value: Value) -> Step {
        Step::Do(Op { f, key: self.key.clone(), value, note: Value::Null, time_limits: 1 })
    }

    /// The value of an operation on all names of the section.
    fn with_others(&self, value: &Value) -> Value {
        match self.also.is_empty() {
            true => value.clone(),
            false => {
                let also = Some(self.also.clone());
                AcquireArguments { also, ..AcquireArguments::of(value) }.into()
            }
        }
    }

    fn acquire(&mut self) -> Step {
        self.key = Cow::Owned(key_name(self.random.random_range(0..self.settings.keys)));
        self.also.clear();
        while self.also.len() + 1 < self.names.min(self.settings.keys) {
            let other = Name::from(key_name(self.random.random_range(0..self.settings.keys)));
            if other != *self.key && !self.also.contains(&other) {
                self.also.push(other);
            }
        }
        let plan = self.settings.length.plan(&mut self.random);
        let (note, time_limits) = (plan.note(self.writes), plan.acquire_time_limits);
        self.at = At::Acquiring(plan);
        let value = self.with_others(&self.request);
        Step::Do(Op { f: f::ACQUIRE, key: self.key.clone(), value, note, time_limits })
    }

    fn rest(&mut self, closing: bool) -> Step {
        if closing {
            return Step::Done;
        }
        self.at = At::Outside;
        match self.settings.length.rest(self.settings.pause, &mut self.random) {
            Duration::ZERO => self.acquire(),
            rest => Step::Wait(rest),
        }
    }

    fn work_on(&mut self, last: Option<&Completion>, now: Now) -> Step {
        self.lateness.woke(now);
        if let Some(late) = self.lateness.overdue(now.time) {
            return Step::Abandon { key: self.key.clone(), late };
        }
        let mut last = last;
        loop {
            let (f, value, other) = match self.work.as_mut().and_then(|work| work.next(last)) {
                Some(Do::Op(f, value)) => (f, value, None),
                Some(Do::OnOther(f, value)) => (f, value, self.also.first()),
                Some(Do::Until(lasted)) => match self.lateness.wait_until(lasted, now) {
                    Some(wait) => return Step::Wait(wait),
                    None => {
                        last = None;
                        continue;
                    }
                },
                None => {
                    self.at = At::Releasing;
                    return self.op(f::RELEASE, self.with_others(&Value::Null));
                }
            };
            if let Some(late) = self.lateness.write_overdue(now.time).filter(|_| f == f::WRITE) {
                return Step::Abandon { key: self.key.clone(), late };
            }
            let key = other.map_or_else(|| self.key.clone(), |other| Cow::Owned(other.to_string()));
            return Step::Do(Op { f, key, value, note: Value::Null, time_limits: 1 });
        }
    }
}

impl<W: Work + 'static> Script for Sections<W> {
    fn next(&mut self, last: Option<&Completion>, now: Now) -> Step {
        match self.at {
            At::Outside if now.closing => Step::Done,
            At::Outside => self.acquire(),
            At::Acquiring(plan) => match last {
                Some(Completion::Ok(granted)) => {
                    self.at = At::Working;
                    self.work = Some(Box::new((self.begin)(plan, granted)));
                    self.lateness = Lateness::of_grant(&self.settings.length, plan.length, granted, now.time);
                    self.work_on(None, now)
                }
                // Not held, or held by a process number that is never used again.
                _ => self.rest(now.closing),
            },
            At::Working => self.work_on(last, now),
            At::Releasing => self.rest(now.closing),
        }
    }
}
