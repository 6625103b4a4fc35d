//! `set`: read a set, work, write it back with one more value in it.
//!
//! Source: the lock workload of Jepsen's etcd tests, "Jepsen: etcd 3.4.3" (2020): each acknowledged addition must be in
//! the final set. The work takes any time from nothing to twice the mean, as there. Values are unique; the value that
//! a write adds is the last of its list.

use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream, f};
use rand::RngExt;
use serde_json::Value;
use std::time::Duration;

/// A process adds fewer values than this.
const VALUES_MAX: u64 = 1_000_000;

pub(crate) struct Set;

impl Workload for Set {
    fn name(&self) -> &'static str {
        "set"
    }

    fn about(&self) -> &'static str {
        "acquire, read a set, work, write it back with one value more, release; measures the share of additions that is lost"
    }

    fn uses_storage(&self) -> bool {
        true
    }

    fn script(&self, settings: &Settings, process: u64, random: Stream) -> Box<dyn Script> {
        let mut count = 0;
        let begin = move |settings: &Settings, random: &mut Stream| {
            let value = process * VALUES_MAX + count;
            count += 1;
            let longest = 2.0 * settings.hold.as_secs_f64();
            let hold = Duration::from_secs_f64(random.random_range(0.0..=longest));
            Section { value, hold, at: At::Begin }
        };
        Box::new(Sections::new(settings, random, begin))
    }
}

struct Section {
    value: u64,
    hold: Duration,
    at: At,
}

enum At {
    Begin,
    Reading,
    Held(Vec<Value>),
    Over,
}

impl Work for Section {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        match (&mut self.at, last) {
            (At::Begin, _) => {
                self.at = At::Reading;
                Some(Do::Op(f::READ, Value::Null))
            }
            (At::Reading, Some(Completion::Ok(read))) => {
                // What was never written reads as 0.
                self.at = At::Held(read.as_array().cloned().unwrap_or_default());
                Some(Do::Wait(self.hold))
            }
            (At::Held(list), _) => {
                let mut list = std::mem::take(list);
                list.push(self.value.into());
                self.at = At::Over;
                Some(Do::Op(f::WRITE, list.into()))
            }
            (At::Reading | At::Over, _) => None,
        }
    }
}
