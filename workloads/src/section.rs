//! The frame of every critical section: draw it, acquire, work, release, rest.

use crate::lateness::Lateness;
use crate::length::SectionPlan;
use crate::workload::{Now, Op, Script, Settings, Step, key_name};
use fencepost_history::{AcquireArguments, Completion, Mode, Name, Stream, f};
use rand::RngExt;
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// What happens between acquire and release: gives the step of this number, from 0, by how the one before
/// has ended (none after a wait). `None`: the lock is released. It is made anew for each section.
pub(crate) type Work = Box<dyn FnMut(u32, Option<&Completion>) -> Option<Do> + Send>;

pub(crate) enum Do {
    Op(&'static str, Value),
    /// On the second of the names that the section holds.
    OnOther(&'static str, Value),
    /// Goes on once the section has lasted for so long.
    Until(Duration),
    /// Goes on at once.
    Nothing,
}

impl Do {
    pub(crate) fn read() -> Do {
        Do::Op(f::READ, Value::Null)
    }

    pub(crate) fn write(value: impl Into<Value>) -> Do {
        Do::Op(f::WRITE, value.into())
    }

    pub(crate) fn ask(question: &'static str) -> Do {
        Do::Op(question, Value::Null)
    }
}

impl SectionPlan {
    /// What a section does before it reads, where it does something.
    pub(crate) fn until_read(&self) -> Do {
        if self.read_at.is_zero() { Do::Nothing } else { Do::Until(self.read_at) }
    }
}

/// What the last operation answered, if it succeeded.
pub(crate) fn answer(last: Option<&Completion>) -> Option<&Value> {
    last.and_then(|last| if let Completion::Ok(value) = last { Some(value) } else { None })
}

pub(crate) fn has_failed(last: Option<&Completion>) -> bool {
    matches!(last, Some(Completion::Fail(_)))
}

enum At {
    Outside,
    Acquiring(SectionPlan),
    Working,
    Releasing,
}

type BeginSection = Box<dyn FnMut(SectionPlan, &Value) -> Work + Send>;

pub(crate) struct Sections {
    settings: Settings,
    random: Stream,
    begin: BeginSection,
    work: Work,
    step: u32,
    lateness: Lateness,
    request: Value,
    key: Cow<'static, str>,
    names: usize,
    also: Vec<Name>,
    at: At,
    writes: bool,
}

impl Sections {
    /// `begin` makes the work of each section.
    pub(crate) fn new(
        settings: &Settings,
        random: Stream,
        mut begin: impl FnMut(SectionPlan) -> Work + Send + 'static,
    ) -> Sections {
        Sections::of_grants(settings, random, move |plan, _| begin(plan))
    }

    /// `begin` makes the work of each section, also by what its acquire answered.
    pub(crate) fn of_grants(
        settings: &Settings,
        random: Stream,
        begin: impl FnMut(SectionPlan, &Value) -> Work + Send + 'static,
    ) -> Sections {
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
            work: Box::new(|_, _| None),
            step: 0,
            lateness,
            request,
            key,
            names: 1,
            also: Vec::new(),
            at: At::Outside,
            writes: false,
        }
    }

    pub(crate) fn requesting(self, request: Value) -> Sections {
        Sections { request, ..self }
    }

    pub(crate) fn writing(self, writes: bool) -> Sections {
        Sections { writes, ..self }
    }

    /// Each section takes so many names at once, in any order.
    pub(crate) fn of_names(self, names: usize) -> Sections {
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
            let step = (self.work)(self.step, last);
            self.step += 1;
            let (f, value, other) = match step {
                Some(Do::Op(f, value)) => (f, value, None),
                Some(Do::OnOther(f, value)) => (f, value, self.also.first()),
                Some(Do::Until(lasted)) => match self.lateness.wait_until(lasted, now) {
                    Some(wait) => return Step::Wait(wait),
                    None => {
                        last = None;
                        continue;
                    }
                },
                Some(Do::Nothing) => {
                    last = None;
                    continue;
                }
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

impl Script for Sections {
    fn next(&mut self, last: Option<&Completion>, now: Now) -> Step {
        match self.at {
            At::Outside if now.closing => Step::Done,
            At::Outside => self.acquire(),
            At::Acquiring(plan) => match last {
                Some(Completion::Ok(granted)) => {
                    self.at = At::Working;
                    (self.work, self.step) = ((self.begin)(plan, granted), 0);
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
