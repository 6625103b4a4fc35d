//! `lock`: acquire, hold, check, release. Nothing is protected: only the lock itself is judged.

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream, f};
use serde_json::Value;

const CHECKS: u32 = 3;

pub(crate) const LOCK: Workload = Workload {
    uses_storage: false,
    has_readers: true,
    fits: |_| true,
    ..Workload::new(
        "lock",
        "acquire, hold, ask the holder now and then whether it believes that it still holds, release",
        script,
    )
};

fn script(settings: &Settings, _process: u64, random: Stream) -> Box<dyn Script> {
    let begin = |plan: SectionPlan| -> Work {
        Box::new(move |step, last: Option<&Completion>| match step {
            // A holder that no longer believes does not go on.
            _ if last == Some(&Completion::Ok(Value::Bool(false))) => None,
            step if step == 2 * CHECKS => None,
            step if step % 2 == 0 => Some(Do::Until((step / 2 + 1) * (plan.length / CHECKS))),
            _ => Some(Do::ask(f::HOLDS)),
        })
    };
    Box::new(Sections::new(settings, random, begin))
}
