//! `set`: read a set, work, write it back with one more value in it. Source: the lock workload of Jepsen's
//! etcd tests, "Jepsen: etcd 3.4.3" (2020): each acknowledged addition must be in the final set. With
//! `--hold` the work takes from nothing to twice that, as there. Values are unique; a write adds its last.

use crate::length::{Length, SectionPlan};
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream, f};
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
    let begin = move |plan| {
        let value = process * VALUES_MAX + count;
        count += 1;
        Section { value, plan, at: At::Begin }
    };
    let length = match settings.length {
        Length::Fixed(mean) => Length::Between(Duration::ZERO, 2 * mean),
        other => other,
    };
    let settings = Settings { length, ..settings.clone() };
    Box::new(Sections::new(&settings, random, begin).writing(true))
}

struct Section {
    value: u64,
    plan: SectionPlan,
    at: At,
}

enum At {
    Begin,
    Before,
    Reading,
    Held(Vec<Value>),
    Written,
    Over,
}

impl Work for Section {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        match (&mut self.at, last) {
            (At::Begin, _) if !self.plan.read_at.is_zero() => {
                self.at = At::Before;
                Some(Do::Until(self.plan.read_at))
            }
            (At::Begin | At::Before, _) => {
                self.at = At::Reading;
                Some(Do::Op(f::READ, Value::Null))
            }
            (At::Reading, Some(Completion::Ok(read))) => {
                // What was never written reads as 0.
                self.at = At::Held(read.as_array().cloned().unwrap_or_default());
                Some(Do::Until(self.plan.write_at))
            }
            (At::Held(list), _) => {
                let mut list = std::mem::take(list);
                list.push(self.value.into());
                self.at = At::Written;
                Some(Do::Op(f::WRITE, list.into()))
            }
            // Without its write the work is over.
            (At::Written, Some(Completion::Fail(_))) => None,
            (At::Written, _) => {
                self.at = At::Over;
                Some(Do::Until(self.plan.length))
            }
            (At::Reading | At::Over, _) => None,
        }
    }
}
