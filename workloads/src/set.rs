//! `set`: read a set, work, write it back with one more value in it. Source: the lock workload of Jepsen's
//! etcd tests, "Jepsen: etcd 3.4.3" (2020): each acknowledged addition must be in the final set. With
//! `--hold` the work takes from nothing to twice that, as there. Values are unique; a write adds its last.

use crate::length::{Length, SectionPlan};
use crate::section::{Do, Sections, Work, answer, has_failed};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream};
use serde_json::Value;
use std::time::Duration;

const VALUES_MAX: u64 = 1_000_000;

pub(crate) const SET: Workload = Workload::new(
    "set",
    "acquire, read a set, work, write it back with one more value, release; measures the share of additions that are lost",
    script,
);

fn script(settings: &Settings, process: u64, random: Stream) -> Box<dyn Script> {
    let mut count = 0;
    let begin = move |plan: SectionPlan| -> Work {
        let (value, mut list) = (process * VALUES_MAX + count, Vec::new());
        count += 1;
        Box::new(move |step, last: Option<&Completion>| match step {
            0 => Some(plan.until_read()),
            1 => Some(Do::read()),
            2 => {
                // What was never written reads as 0.
                list = answer(last)?.as_array().cloned().unwrap_or_default();
                Some(Do::Until(plan.write_at))
            }
            3 => {
                list.push(Value::from(value));
                Some(Do::write(std::mem::take(&mut list)))
            }
            // Without its write the work is over.
            4 if !has_failed(last) => Some(Do::Until(plan.length)),
            _ => None,
        })
    };
    let length = match settings.length {
        Length::Fixed(mean) => Length::Between(Duration::ZERO, 2 * mean),
        other => other,
    };
    let settings = Settings { length, ..settings.clone() };
    Box::new(Sections::new(&settings, random, begin).writing(true))
}
