//! `increment`: read a counter, work, write it back plus one, and work on. What the lock is there to protect.

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work, answer, has_failed};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream};

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
    let begin = move |plan: SectionPlan| -> Work {
        let mut found = 0;
        Box::new(move |step, last: Option<&Completion>| match step {
            0 => Some(plan.until_read()),
            1 => Some(Do::read()),
            2 => {
                found = answer(last)?.as_i64()?;
                Some(Do::Until(plan.write_at))
            }
            3 if writes => Some(Do::write(found + 1)),
            // Without its write the work is over.
            4 if !writes || has_failed(last) => None,
            3 | 4 => Some(Do::Until(plan.length)),
            _ => None,
        })
    };
    Box::new(Sections::new(settings, random, begin).writing(writes))
}
