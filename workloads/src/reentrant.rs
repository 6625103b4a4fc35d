//! `reentrant`: a process increments a counter, and in the middle of that acquires the lock again, once or
//! twice, as a function does that takes the lock itself, and releases that before it writes. In every third
//! section it does not. Source: the Java documentation of `ReentrantLock`.

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, LockKind, Stream, f};
use serde_json::{Value, json};

/// A section acquires again less often than this.
const NESTED_MAX: u64 = 3;

pub(crate) const REENTRANT: Workload = Workload {
    fits: |kind| kind == LockKind::Reentrant,
    ..Workload::new(
        "reentrant",
        "increment a counter as increment does, and acquire the lock again up to two times in between",
        script,
    )
};

fn script(settings: &Settings, process: u64, random: Stream) -> Box<dyn Script> {
    let mut count = process;
    let begin = move |plan: SectionPlan| -> Work {
        count += 1;
        let mut section = Section { plan, again: count % NESTED_MAX, entered: 0, read: 0, at: At::Begin };
        Box::new(move |_, last: Option<&Completion>| section.next(last))
    };
    Box::new(Sections::new(settings, random, begin).writing(true))
}

struct Section {
    plan: SectionPlan,
    /// How often it has still to acquire again.
    again: u64,
    /// How often it acquired again, and has not released that.
    entered: u64,
    read: i64,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Begin,
    Due,
    Reading,
    Entering,
    Within,
    Leaving,
    Outside,
    Written,
    Over,
}

impl Section {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        let op = |name| Do::Op(name, Value::Null);
        if let (At::Reading, Some(Completion::Ok(value))) = (self.at, last) {
            self.read = value.as_i64()?;
        }
        let failed = matches!(last, Some(Completion::Fail(_)));
        if let (At::Entering, Some(Completion::Ok(_))) = (self.at, last) {
            self.entered += 1;
        }
        let (next, step) = match self.at {
            At::Begin => (At::Due, Do::Until(self.plan.read_at)),
            At::Due => (At::Reading, op(f::READ)),
            // Without its value, with a lock that is no longer its own or without its write the work is over.
            At::Reading | At::Leaving | At::Written if failed => return None,
            At::Reading | At::Entering if self.again > 0 && !failed => {
                self.again -= 1;
                (At::Entering, op(f::REENTER))
            }
            At::Reading | At::Entering => {
                (At::Within, Do::Until((self.plan.read_at + self.plan.write_at) / 2))
            }
            At::Within | At::Leaving if self.entered > 0 => {
                self.entered -= 1;
                (At::Leaving, op(f::LEAVE))
            }
            At::Within | At::Leaving => (At::Outside, Do::Until(self.plan.write_at)),
            At::Outside => (At::Written, Do::Op(f::WRITE, json!(self.read + 1))),
            At::Written => (At::Over, Do::Until(self.plan.length)),
            At::Over => return None,
        };
        self.at = next;
        Some(step)
    }
}
