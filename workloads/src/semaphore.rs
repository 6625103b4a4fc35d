//! `semaphore`: a process enters a resource that counts its users, looks who is there, and leaves it. More
//! users than permits are one too many. Source: Dijkstra, "Cooperating sequential processes" (EWD 123).

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, LockKind, ResourceUse, Stream, f};
use serde_json::Value;

pub(crate) const SEMAPHORE: Workload = Workload {
    fits: |kind| kind == LockKind::Semaphore,
    ..Workload::new(
        "semaphore",
        "acquire a permit, enter a resource that counts its users, read who is there, leave it, release",
        script,
    )
};

fn script(settings: &Settings, process: u64, random: Stream) -> Box<dyn Script> {
    let begin = move |plan| Section { plan, process, at: At::Begin };
    Box::new(Sections::new(settings, random, begin).writing(true))
}

struct Section {
    plan: SectionPlan,
    process: u64,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Begin,
    Entered,
    Looked,
    Waited,
    LookedAgain,
    Left,
    Over,
}

impl Work for Section {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        let write = |used: ResourceUse| Do::Op(f::WRITE, used.into());
        let (next, step) = match self.at {
            At::Begin => (At::Entered, write(ResourceUse::Enter(self.process))),
            // Not in it: there is nothing to do.
            At::Entered if matches!(last, Some(Completion::Fail(_))) => return None,
            At::Entered => (At::Looked, Do::Op(f::READ, Value::Null)),
            At::Looked => (At::Waited, Do::Until(self.plan.write_at)),
            At::Waited => (At::LookedAgain, Do::Op(f::READ, Value::Null)),
            At::LookedAgain => (At::Left, write(ResourceUse::Leave(self.process))),
            At::Left => (At::Over, Do::Until(self.plan.length)),
            At::Over => return None,
        };
        self.at = next;
        Some(step)
    }
}
