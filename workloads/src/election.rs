//! `election`: the leader reads the last entry of a log, and writes its own with its term, again and again
//! for as long as it leads; the others campaign, and a follower asks who leads. A leader that reads an entry
//! of a later term was deposed and did not know it. Source: Ongaro and Ousterhout, "In search of an
//! understandable consensus algorithm" (2014), section 5: at most one leader a term, and terms that grow.

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work};
use crate::workload::{Now, Op, Script, Settings, Step, Workload, key_name};
use fencepost_history::{Completion, Grant, LockKind, LogEntry, Stream, f};
use rand::RngExt;
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

const ENTRIES_MAX: u64 = 1_000_000;
const ENTRIES: u32 = 3;

/// How long a follower rests between two questions, in milliseconds.
const FOLLOWER_RESTS_MS: std::ops::RangeInclusive<u64> = 20..=120;

pub(crate) const ELECTION: Workload = Workload {
    has_follower: true,
    fits: |kind| kind == LockKind::Election,
    ..Workload::new(
        "election",
        "campaign, lead, write a log with the term of the leadership, resign; the other processes campaign, and one may ask who leads",
        script,
    )
};

fn script(settings: &Settings, process: u64, random: Stream) -> Box<dyn Script> {
    if settings.reader {
        return Box::new(Follower { keys: settings.keys, random, has_rested: true });
    }
    let mut terms = 0;
    let begin = move |plan: SectionPlan, granted: &Value| {
        terms += 1;
        let number = process * ENTRIES_MAX + terms * u64::from(ENTRIES);
        let entry = LogEntry { number, process, term: Grant::of(granted).token };
        Term { plan, entry, written: 0, at: At::Begin }
    };
    // A process that does not lead campaigns all the time.
    let settings = Settings { pause: Duration::ZERO, ..settings.clone() };
    Box::new(Sections::of_grants(&settings, random, begin).writing(true))
}

/// Asks who leads, for as long as the run goes on.
struct Follower {
    keys: usize,
    random: Stream,
    has_rested: bool,
}

impl Script for Follower {
    fn next(&mut self, _last: Option<&Completion>, now: Now) -> Step {
        self.has_rested = !self.has_rested;
        match (now.closing, self.has_rested) {
            (true, _) => Step::Done,
            (false, true) => Step::Wait(Duration::from_millis(self.random.random_range(FOLLOWER_RESTS_MS))),
            (false, false) => Step::Do(Op {
                f: f::LEADER,
                key: Cow::Owned(key_name(self.random.random_range(0..self.keys))),
                value: Value::Null,
                note: Value::Null,
                time_limits: 1,
            }),
        }
    }
}

struct Term {
    plan: SectionPlan,
    entry: LogEntry,
    written: u32,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Begin,
    Looked,
    Read,
    Wrote,
    Over,
}

impl Work for Term {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        // Who no longer leads resigns.
        if matches!((self.at, last), (At::Looked, Some(Completion::Ok(Value::Bool(false))))) {
            return None;
        }
        let (next, step) = match self.at {
            At::Begin => (At::Looked, Do::Op(f::HOLDS, Value::Null)),
            At::Looked => (At::Read, Do::Op(f::READ, Value::Null)),
            // The log could not be read, or not be written: there is nothing to do for a leader.
            At::Read | At::Wrote if matches!(last, Some(Completion::Fail(_))) => return None,
            At::Read => {
                let number = self.entry.number + u64::from(self.written);
                self.written += 1;
                (At::Wrote, Do::Op(f::WRITE, LogEntry { number, ..self.entry }.into()))
            }
            At::Wrote => {
                let is_last = self.written == ENTRIES;
                let until =
                    if is_last { self.plan.length } else { self.plan.length * self.written / ENTRIES };
                (if is_last { At::Over } else { At::Begin }, Do::Until(until))
            }
            At::Over => return None,
        };
        self.at = next;
        Some(step)
    }
}
