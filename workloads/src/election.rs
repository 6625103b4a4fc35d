//! `election`: the leader reads the last entry of a log, and writes its own with its term, again and again
//! for as long as it leads; the others campaign, and a follower asks who leads. A leader that reads an entry
//! of a later term was deposed and did not know it. Source: Ongaro and Ousterhout, "In search of an
//! understandable consensus algorithm" (2014), section 5: at most one leader a term, and terms that grow.

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work, has_failed};
use crate::workload::{Now, Op, Script, Settings, Step, Workload, key_name};
use fencepost_history::{Completion, Grant, LockKind, LogEntry, Stream, f};
use rand::RngExt;
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

const ENTRIES_MAX: u64 = 1_000_000;
const ENTRIES: u32 = 3;
/// For each: asks itself whether it leads, reads, writes, works on.
const STEPS: u32 = 4;

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
    let begin = move |plan: SectionPlan, granted: &Value| -> Work {
        terms += 1;
        let number = process * ENTRIES_MAX + terms * u64::from(ENTRIES);
        let first = LogEntry { number, process, term: Grant::of(granted).token };
        Box::new(move |step, last: Option<&Completion>| {
            let written = step / STEPS;
            match step % STEPS {
                _ if written == ENTRIES => None,
                0 => Some(Do::ask(f::HOLDS)),
                // Who no longer leads resigns.
                1 if last == Some(&Completion::Ok(Value::Bool(false))) => None,
                1 => Some(Do::read()),
                // The log could not be read, or not be written: there is nothing to do for a leader.
                _ if has_failed(last) => None,
                2 => Some(Do::write(LogEntry { number: first.number + u64::from(written), ..first })),
                _ => Some(Do::Until(plan.length * (written + 1) / ENTRIES)),
            }
        })
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
