use crate::error::OperationError;
use crate::name::Name;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Names of operations (`f`) of Fencepost's own workloads; foreign histories may hold others.
pub mod f {
    pub const ACQUIRE: &str = "acquire";
    pub const RELEASE: &str = "release";
    pub const HOLDS: &str = "holds";
    /// The holder lets the lock last for a TTL from now on.
    pub const PROLONG: &str = "prolong";
    /// A process asks who leads: the number of the process that does, or null.
    pub const LEADER: &str = "leader";
    /// No operation: what a client announces whose calls can be given up.
    pub const CANCEL: &str = "cancel";
    /// The holder of a reentrant lock acquires it once more.
    pub const REENTER: &str = "reenter";
    /// The holder of a reentrant lock releases it once, and holds it still.
    pub const LEAVE: &str = "leave";
    pub const READ: &str = "read";
    pub const WRITE: &str = "write";
    /// A client's notice that its library reported the lock as lost (`type` is `info`).
    pub const LOST: &str = "lost";
    /// A client's notice that a watchdog or keepalive prolonged the lease (`type` is `info`).
    pub const RENEWED: &str = "renewed";
    /// A client's notice that its recipe has reached a point at which it was to pause (`type` is `info`).
    pub const AT: &str = "at";

    /// What the processes of a run do, in the order of a section.
    pub const OPERATIONS: [&str; 9] = [ACQUIRE, REENTER, PROLONG, HOLDS, READ, WRITE, LEAVE, RELEASE, LEADER];

    pub const NOTICES: [&str; 3] = [LOST, RENEWED, AT];

    /// Whether this is the name of a client's notice, which has no invocation and can come at any time.
    pub fn is_notice(name: &str) -> bool {
        NOTICES.contains(&name)
    }
}

/// The name (`f`) of the event of unfinished scripts, a list of [`UnfinishedScript`]; they may hold the lock.
pub const SCRIPTS_CUT_SHORT: &str = "scripts-cut-short";

/// A client that did not come to the end of its script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedScript {
    pub client: String,
    /// The process that followed the script at last.
    pub process: u64,
}

/// The name (`f`) of the last event of a run that was cut off, with the reason: later duties are not judged.
pub const CUT_OFF: &str = "cut-off";

/// The name (`f`) of the event of a process that gave up its critical section, a [`SectionAbandoned`].
pub const SECTION_ABANDONED: &str = "section-abandoned";

/// A process kept from its section until its lease was over, by a busy machine. It did nothing more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionAbandoned {
    pub process: u64,
    pub key: String,
    /// How long ago the time was over in which it would have gone on, in milliseconds.
    pub late_ms: u64,
}

/// Who an event belongs to.
///
/// Logical, single-threaded users of the lock; a number ends with an indeterminate operation, as in Jepsen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Process {
    Client(u64),
    Nemesis,
}

impl fmt::Display for Process {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Client(number) => write!(out, "{number}"),
            Process::Nemesis => out.write_str("nemesis"),
        }
    }
}

impl Serialize for Process {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Process::Client(number) => serializer.serialize_u64(*number),
            Process::Nemesis => serializer.serialize_str("nemesis"),
        }
    }
}

impl<'de> Deserialize<'de> for Process {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Process;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a process number or \"nemesis\"")
            }
            fn visit_u64<E>(self, number: u64) -> Result<Process, E> {
                Ok(Process::Client(number))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Process, E> {
                u64::try_from(number)
                    .map(Process::Client)
                    .map_err(|_| E::custom("a process number is not negative"))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Process, E> {
                match text {
                    "nemesis" => Ok(Process::Nemesis),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

worded! {
    /// What an event says about its operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Kind {
        Invoke = "invoke",
        Ok = "ok",
        /// It certainly did not happen.
        Fail = "fail",
        /// It is unknown whether it happened; it may still happen later.
        Info = "info",
    }
    /// Its name in histories.
    pub fn name;
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Place in the history, from 0.
    pub index: u64,
    /// Nanoseconds since the run began, by the controller's monotonic clock.
    pub time: u64,
    pub process: Process,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub f: Name,
    /// What is locked or counted. Faults have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Name>,
    /// Arguments at the invocation, results at the completion. Equal ones of one file are shared.
    #[serde(default)]
    pub value: Arc<Value>,
    /// Why an operation failed or is indeterminate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<OperationError>,
}
