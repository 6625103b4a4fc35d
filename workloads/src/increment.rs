//! `increment`: read a counter, work, write it back plus one. What the lock is there to protect.

use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Completion, Stream, f};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) struct Increment;

impl Workload for Increment {
    fn name(&self) -> &'static str {
        "increment"
    }

    fn about(&self) -> &'static str {
        "acquire, read a counter, work, write it back plus one, release; at the end every acknowledged increment must be there"
    }

    fn uses_storage(&self) -> bool {
        true
    }

    fn has_readers(&self) -> bool {
        true
    }

    fn script(&self, settings: &Settings, _process: u64, random: Stream) -> Box<dyn Script> {
        Box::new(Sections::new(settings, random, |settings, _| Section {
            hold: settings.hold,
            writes: !settings.reader,
            at: At::Begin,
        }))
    }
}

struct Section {
    hold: Duration,
    writes: bool,
    at: At,
}

enum At {
    Begin,
    Reading,
    Held(i64),
    Over,
}

impl Work for Section {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        match self.at {
            At::Begin => {
                self.at = At::Reading;
                Some(Do::Op(f::READ, Value::Null))
            }
            At::Reading => match last {
                Some(Completion::Ok(value)) if value.as_i64().is_some() => {
                    self.at = At::Held(value.as_i64().unwrap_or_default());
                    if self.hold.is_zero() { self.next(None) } else { Some(Do::Wait(self.hold)) }
                }
                _ => None,
            },
            At::Held(value) if self.writes => {
                self.at = At::Over;
                Some(Do::Op(f::WRITE, json!(value + 1)))
            }
            At::Held(_) | At::Over => None,
        }
    }
}
