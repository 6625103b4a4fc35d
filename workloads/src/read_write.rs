//! `read-write`: a writer changes a pair in two steps, a reader reads it. A reader that finds one half
//! changed and not the other was let in beside a writer. Each write has a value of its own, which names it.
//! Source: Courtois, Heymans and Parnas, "Concurrent control with 'readers' and 'writers'" (1971).

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work, answer, has_failed};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, LockKind, Pair, Stream};

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
    let begin = move |plan: SectionPlan| -> Work {
        count += 1;
        let value = process * VALUES_MAX + count;
        Box::new(move |step, last: Option<&Completion>| match step {
            0 => Some(plan.until_read()),
            1 => Some(Do::read()),
            2 => {
                let before = Pair::of(answer(last)?).map_or(0, |pair| pair.0);
                Some(if writes { Do::write(Pair(value, before)) } else { Do::Nothing })
            }
            // Without its first write the work is over.
            3 if has_failed(last) => None,
            3 => Some(Do::Until(plan.write_at)),
            4 if writes => Some(Do::write(Pair(value, value))),
            4 => Some(Do::read()),
            5 => Some(Do::Until(plan.length)),
            _ => None,
        })
    };
    Box::new(Sections::new(settings, random, begin).writing(writes))
}
