//! `semaphore`: a process enters a resource that counts its users, looks who is there, and leaves it. More
//! users than permits are one too many. Source: Dijkstra, "Cooperating sequential processes" (EWD 123).

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work, has_failed};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, LockKind, ResourceUse, Stream};

pub(crate) const SEMAPHORE: Workload = Workload {
    fits: |kind| kind == LockKind::Semaphore,
    ..Workload::new(
        "semaphore",
        "acquire a permit, enter a resource that counts its users, read who is there, leave it, release",
        script,
    )
};

fn script(settings: &Settings, process: u64, random: Stream) -> Box<dyn Script> {
    let begin = move |plan: SectionPlan| -> Work {
        Box::new(move |step, last: Option<&Completion>| match step {
            0 => Some(Do::write(ResourceUse::Enter(process))),
            // Not in it: there is nothing to do.
            1 if has_failed(last) => None,
            1 | 3 => Some(Do::read()),
            2 => Some(Do::Until(plan.write_at)),
            4 => Some(Do::write(ResourceUse::Leave(process))),
            5 => Some(Do::Until(plan.length)),
            _ => None,
        })
    };
    Box::new(Sections::new(settings, random, begin).writing(true))
}
