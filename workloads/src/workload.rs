//! What a workload is: a script for each process, made of steps.

use crate::length::Length;
use fencepost_history::{Completion, LockKind, Stream};
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// What processes of a test do, and what is read at the end.
pub struct Workload {
    pub name: &'static str,
    /// One line for `fencepost list`.
    pub about: &'static str,
    pub uses_storage: bool,
    /// Whether some of its processes can take the lock shared and only read.
    pub has_readers: bool,
    /// Whether one of its processes only asks who leads, where clients can say it.
    pub has_follower: bool,
    /// Whether it is right under a lock of this kind: several holders protect other things than one.
    pub fits: fn(LockKind) -> bool,
    /// What its clients must be able to do, by the word of the hello's `can`.
    pub needs: Option<&'static str>,
    pub script: NewScript,
}

/// What the process of this number does from now on, drawing from its own random stream.
type NewScript = fn(&Settings, process: u64, Stream) -> Box<dyn Script>;

impl Workload {
    pub(crate) const fn new(name: &'static str, about: &'static str, script: NewScript) -> Workload {
        Workload {
            name,
            about,
            uses_storage: true,
            has_readers: false,
            has_follower: false,
            fits: |kind| !matches!(kind, LockKind::Semaphore),
            needs: None,
            script,
        }
    }
}

/// A process's next step, given how the last operation ended.
pub trait Script: Send {
    /// `last` is none at the start and after a wait.
    fn next(&mut self, last: Option<&Completion>, now: Now) -> Step;
}

/// The moment at which a process asks for its next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// Monotonic controller time; arbitrary origin.
    pub time: Duration,
    /// The time is up: a script ends what it is in the middle of (it writes and releases) and begins nothing.
    pub closing: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Do(Op),
    Wait(Duration),
    /// Ends the process without another operation, as if its program had ended: its lease was over, by so
    /// much, before it could go on, and no fault was the reason.
    Abandon {
        key: Cow<'static, str>,
        late: Duration,
    },
    Done,
}

/// An operation to be sent to the process's client.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub f: &'static str,
    pub key: Cow<'static, str>,
    pub value: Value,
    /// What the history says beside the arguments; it is not sent. An object, or null for nothing.
    pub note: Value,
    /// How many times the run's time limit of such an operation it may take.
    pub time_limits: u32,
}

/// What the command line says about workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Number of keys; a process draws one for each critical section.
    pub keys: usize,
    pub length: Length,
    pub pause: Duration,
    /// The process only reads, or only asks who leads.
    pub reader: bool,
}

/// The name of key `number`, as in histories: `k0`, `k1`, ….
pub fn key_name(number: usize) -> String {
    format!("k{number}")
}
