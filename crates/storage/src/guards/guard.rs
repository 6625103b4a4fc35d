//! What a guard is, and what it decides about.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Decides which writes the storage accepts. A guard names what differs from another one, such as `none`.
pub struct Guard {
    pub name: &'static str,
    /// One line for `fencepost list`.
    pub about: &'static str,
    /// Where the idea comes from: author, title and year.
    pub source: &'static str,
    /// What each request must carry of the lock under which it is made.
    pub needs: Need,
    /// How many storages there are: one, or an odd number of replicas of which a majority decides.
    pub replicas: usize,
    /// Whether another request can come in between the check of a write and the write itself.
    pub in_two_steps: bool,
    pub admits: fn(&mut Record, &Write) -> Result<(), Rejection>,
    pub on_read: fn(&mut Record, &Credentials),
    /// How a holder marks the storage as its own before its first read or write, where it does that.
    pub marks: Option<Mark>,
}

type Mark = fn(&mut Record, &Credentials) -> Result<(), Rejection>;

impl Guard {
    pub fn marks_first(&self) -> bool {
        self.marks.is_some()
    }

    /// Accepts the write, and notes in the record what later decisions need; or rejects it. Unless the guard
    /// works [in two steps](Guard::in_two_steps), the storage calls it and stores the value in one step.
    pub fn admit(&self, record: &mut Record, write: &Write) -> Result<(), Rejection> {
        (self.admits)(record, write)
    }

    pub fn saw_read(&self, record: &mut Record, credentials: &Credentials) {
        (self.on_read)(record, credentials);
    }

    /// Marks the storage as the holder's with these credentials, or rejects the mark.
    pub fn mark(&self, record: &mut Record, credentials: &Credentials) -> Result<(), Rejection> {
        match self.marks {
            Some(mark) => mark(record, credentials),
            None => Err(Rejection::new("no-marks", format_args!("the guard {} takes no marks", self.name))),
        }
    }
}

/// What a guard needs from the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Nothing,
    /// A fencing token, greater with each grant.
    Token,
    /// A value that no other grant has.
    UniqueValue,
    /// A text by which the lock service can check later whether the lock is still held.
    Sequencer,
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Need::Nothing => "nothing",
            Need::Token => "a fencing token",
            Need::UniqueValue => "a unique value",
            Need::Sequencer => "a sequencer",
        })
    }
}

/// What a request carries: who makes it, and under which lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Credentials {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequencer: Option<String>,
    /// The number of the process in the history, for the storage's log: what does not say it is not in there.
    /// No guard looks at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u64>,
}

/// What the storage keeps for a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// A counter or a list; 0 before anything was written.
    pub value: Value,
    pub token_max: Option<u64>,
    /// The unique value of the holder that marked it last.
    pub marked_by: Option<String>,
    /// With replicas: the token of the write, and its number among the writes of its client.
    pub version: Option<(u64, u64)>,
    /// Writes that were checked and are not yet done.
    pub unwritten: usize,
}

impl Default for Record {
    fn default() -> Record {
        Record { value: 0.into(), token_max: None, marked_by: None, version: None, unwritten: 0 }
    }
}

/// A write that wants to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub value: Value,
    pub credentials: Credentials,
}

/// Why a guard does not accept a write or a mark: a code of the guard's own, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    code: &'static str,
    detail: String,
}

impl Rejection {
    /// `code`: any word in small letters and hyphens (`stale-token`), beside the answer's own code.
    pub fn new(code: &'static str, detail: impl fmt::Display) -> Rejection {
        Rejection { code, detail: detail.to_string() }
    }

    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code, self.detail)
    }
}

#[cfg(test)]
pub(super) mod literal {
    use super::*;

    pub(in crate::guards) fn token(token: u64) -> Credentials {
        Credentials { token: Some(token), ..Credentials::default() }
    }

    pub(in crate::guards) fn unique(value: &str) -> Credentials {
        Credentials { unique: Some(value.to_owned()), ..Credentials::default() }
    }

    pub(in crate::guards) fn write(credentials: Credentials) -> Write {
        Write { value: 1.into(), credentials }
    }
}
