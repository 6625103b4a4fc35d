//! `election`: the leader reads the last entry of a log, and writes its own with its term, again and again
//! for as long as it leads; all others campaign. A leader that reads an entry of a later term was
//! deposed and did not know it. Source: Ongaro and Ousterhout, "In search of an understandable consensus
//! algorithm" (2014), section 5: at most one leader a term, and terms that grow.

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Grant, LockKind, LogEntry, Stream, f};
use serde_json::Value;
use std::time::Duration;

const ENTRIES_MAX: u64 = 1_000_000;
const ENTRIES: u32 = 3;

pub(crate) struct Election;

impl Workload for Election {
    fn name(&self) -> &'static str {
        "election"
    }

    fn about(&self) -> &'static str {
        "campaign, lead, write a log with the term of the leadership, resign; the other processes campaign"
    }

    fn uses_storage(&self) -> bool {
        true
    }

    fn fits(&self, kind: LockKind) -> bool {
        kind == LockKind::Election
    }

    fn script(&self, settings: &Settings, process: u64, random: Stream) -> Box<dyn Script> {
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
