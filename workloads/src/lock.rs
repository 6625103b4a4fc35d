//! `lock`: acquire, hold, check, release. Nothing is protected: only the lock itself is judged.

use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream, f};
use serde_json::Value;
use std::time::Duration;

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
    Box::new(Sections::new(settings, random, |plan| Section {
        slice: plan.length / CHECKS,
        checks: 0,
        waited: false,
    }))
}

struct Section {
    slice: Duration,
    checks: u32,
    waited: bool,
}

impl Work for Section {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        // A holder that no longer believes does not go on.
        if self.checks == CHECKS || matches!(last, Some(Completion::Ok(Value::Bool(false)))) {
            return None;
        }
        if !self.waited {
            self.waited = true;
            return Some(Do::Until((self.checks + 1) * self.slice));
        }
        self.waited = false;
        self.checks += 1;
        Some(Do::Op(f::HOLDS, Value::Null))
    }
}
