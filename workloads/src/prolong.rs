//! `prolong`: a process that holds the lock prolongs it, asks itself whether it still holds, and goes on,
//! also beyond the TTL of its acquire. One that is refused goes on no longer. Some wait until their lock has
//! run out before they prolong it, as programs do that are late: they must be refused. Source: the Redis
//! documentation, "Distributed locks with Redis", section "Making the algorithm more reliable".

use crate::length::{Length, SectionPlan};
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream, f};
use serde_json::Value;
use std::time::Duration;

/// How often a section prolongs its lock, unless it is one that comes late.
const TIMES: u32 = 3;

/// When one that comes late prolongs it, in tenths of a TTL from its beginning.
const LATE: u32 = 12;

pub(crate) const PROLONG: Workload = Workload {
    uses_storage: false,
    fits: |kind| kind.is_mutex(),
    needs: Some(f::PROLONG),
    ..Workload::new(
        "prolong",
        "acquire, prolong the lock while it is held, ask the holder whether it still holds, release",
        script,
    )
};

fn script(settings: &Settings, _process: u64, random: Stream) -> Box<dyn Script> {
    let ttl = match settings.length {
        Length::Drawn(drawn) => drawn.ttl,
        Length::Fixed(_) | Length::Between(..) => Duration::MAX,
    };
    let begin = move |plan: SectionPlan| -> Work {
        // Of the long sections, those that would read late prolong late.
        let is_late = plan.length > ttl / 2 && !plan.read_at.is_zero();
        let (times, length) =
            if is_late { (1, plan.length.max(ttl * LATE / 10)) } else { (TIMES, plan.length) };
        Box::new(move |step, last: Option<&Completion>| match step % 3 {
            _ if step == 3 * times || is_no(last) => None,
            0 => Some(Do::Until((step / 3 + 1) * (length / times))),
            1 => Some(Do::ask(f::PROLONG)),
            _ => Some(Do::ask(f::HOLDS)),
        })
    };
    Box::new(Sections::new(settings, random, begin))
}

/// Whether the last step showed that the lock is no longer held.
fn is_no(last: Option<&Completion>) -> bool {
    matches!(last, Some(Completion::Fail(_) | Completion::Ok(Value::Bool(false))))
}
