//! `read-write`: a writer changes a pair in two steps, a reader reads it. A reader that finds one half
//! changed and not the other was let in beside a writer. Each write has a value of its own, which names it.
//! Source: Courtois, Heymans and Parnas, "Concurrent control with 'readers' and 'writers'" (1971).

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, LockKind, Pair, Stream, f};
use serde_json::Value;
use std::time::Duration;

const VALUES_MAX: u64 = 1_000_000;

pub(crate) const READ_WRITE: Workload = Workload {
    has_readers: true,
    fits: |kind| kind == LockKind::ReadWrite,
    ..Workload::new(
        "read-write",
        "writers change a pair in two steps, readers read it; a half-changed pair shows that a reader was in beside a writer",
        script,
    )
};

fn script(settings: &Settings, process: u64, random: Stream) -> Box<dyn Script> {
    let writes = !settings.reader;
    let mut count = 0;
    let begin = move |plan: SectionPlan| {
        count += 1;
        Section { plan, writes, value: process * VALUES_MAX + count, at: At::Begin, before: 0 }
    };
    Box::new(Sections::new(settings, random, begin).writing(writes))
}

struct Section {
    plan: SectionPlan,
    writes: bool,
    value: u64,
    at: At,
    before: u64,
}

#[derive(Clone, Copy)]
enum At {
    Begin,
    Before,
    Reading,
    /// A reader has read, or a writer has changed the first half.
    Half,
    Waited,
    Last,
    Over,
}

impl Section {
    fn wait(&mut self, at: At, until: Duration) -> Option<Do> {
        self.at = at;
        Some(Do::Until(until))
    }

    fn op(&mut self, at: At, write: Option<Pair>) -> Option<Do> {
        self.at = at;
        Some(write.map_or(Do::Op(f::READ, Value::Null), |pair| Do::Op(f::WRITE, pair.into())))
    }
}

impl Work for Section {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        let whole = Pair(self.value, self.value);
        match self.at {
            At::Begin if !self.plan.read_at.is_zero() => self.wait(At::Before, self.plan.read_at),
            At::Begin | At::Before => self.op(At::Reading, None),
            At::Reading => {
                let Some(Completion::Ok(read)) = last else { return None };
                if !self.writes {
                    return self.wait(At::Waited, self.plan.write_at);
                }
                self.before = Pair::of(read).map_or(0, |pair| pair.0);
                self.op(At::Half, Some(Pair(self.value, self.before)))
            }
            // Without its first write the work is over.
            At::Half if matches!(last, Some(Completion::Fail(_))) => None,
            At::Half => self.wait(At::Waited, self.plan.write_at),
            At::Waited => self.op(At::Last, self.writes.then_some(whole)),
            At::Last => self.wait(At::Over, self.plan.length),
            At::Over => None,
        }
    }
}
