//! `increment`: read a counter, work, write it back plus one, and work on. What the lock is there to protect.

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream, f};
use serde_json::{Value, json};

pub(crate) const INCREMENT: Workload = Workload {
    has_readers: true,
    ..Workload::new(
        "increment",
        "acquire, read a counter, work, write it back plus one, release; at the end every acknowledged increment must be there",
        script,
    )
};

fn script(settings: &Settings, _process: u64, random: Stream) -> Box<dyn Script> {
    let writes = !settings.reader;
    let begin = move |plan| Section { plan, writes, at: At::Begin };
    Box::new(Sections::new(settings, random, begin).writing(writes))
}

struct Section {
    plan: SectionPlan,
    writes: bool,
    at: At,
}

enum At {
    Begin,
    Before,
    Reading,
    Held(i64),
    Written,
    Over,
}

impl Work for Section {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        match self.at {
            At::Begin if !self.plan.read_at.is_zero() => {
                self.at = At::Before;
                Some(Do::Until(self.plan.read_at))
            }
            At::Begin | At::Before => {
                self.at = At::Reading;
                Some(Do::Op(f::READ, Value::Null))
            }
            At::Reading => match last {
                Some(Completion::Ok(value)) if value.as_i64().is_some() => {
                    self.at = At::Held(value.as_i64().unwrap_or_default());
                    Some(Do::Until(self.plan.write_at))
                }
                _ => None,
            },
            At::Held(value) if self.writes => {
                self.at = At::Written;
                Some(Do::Op(f::WRITE, json!(value + 1)))
            }
            // Without its write the work is over.
            At::Written if matches!(last, Some(Completion::Fail(_))) => None,
            At::Held(_) | At::Written => {
                self.at = At::Over;
                Some(Do::Until(self.plan.length))
            }
            At::Over => None,
        }
    }
}
