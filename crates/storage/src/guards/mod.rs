//! Guards: which writes the storage accepts. One file each; [`guards`] names them all.

mod epoch_quorum;
mod epoch_quorum_unmarked;
mod none;
mod sequencer;
mod token;
mod token_racy;
mod unique;
mod unique_racy;

use serde_json::Value;

/// Decides which writes the storage accepts.
pub trait Guard: Send + Sync {
    /// As on the command line.
    fn name(&self) -> &'static str;
    /// One line for `fencepost list`.
    fn about(&self) -> &'static str;
    /// What each request must carry of the lock under which it is made.
    fn needs(&self) -> Need;
    /// How many storages there are: one, or an odd number of replicas of which a majority decides.
    fn replicas(&self) -> usize {
        1
    }
    /// Whether a holder marks the storage as its own before its first read or write.
    fn marks_first(&self) -> bool {
        false
    }
    /// Whether another request can come in between the check of a write and the write itself.
    fn in_two_steps(&self) -> bool {
        false
    }
    /// Accepts the write, noting in the record what later decisions need, or says why not: a code, a colon and
    /// words. Unless the guard works [in two steps](Guard::in_two_steps), the storage calls it and stores the value
    /// in one step.
    fn admit(&self, record: &mut Record, write: &Write) -> Result<(), String>;
    /// Notes what a read carries. A read is never refused.
    fn saw_read(&self, _record: &mut Record, _pass: &Credentials) {}
    /// Marks the storage as the own of whoever has this credentials, or says why not.
    fn mark(&self, _record: &mut Record, _pass: &Credentials) -> Result<(), String> {
        Err(format!("bad-request: the guard {} takes no marks", self.name()))
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
    /// Words by which the lock service can tell later whether the lock is still held.
    Sequencer,
}

/// What a request carries of the lock under which it is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credentials {
    pub token: Option<u64>,
    pub unique: Option<String>,
    pub sequencer: Option<String>,
}

/// What the storage keeps for a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// A counter or a list; 0 before anything was written.
    pub value: Value,
    /// The highest token that was seen.
    pub token_max: Option<u64>,
    /// The unique value of whoever marked it last.
    pub marked_by: Option<String>,
    /// With replicas: by whom the value was written, and as its writer's which write.
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

/// Every guard: one line each.
pub fn guards() -> &'static [&'static dyn Guard] {
    &[
        &none::NoGuard,
        &token::Token,
        &token_racy::TokenRacy,
        &unique::Unique,
        &unique_racy::UniqueRacy,
        &sequencer::Sequencer,
        &epoch_quorum::EpochQuorum,
        &epoch_quorum_unmarked::EpochQuorumUnmarked,
    ]
}

/// The guard of that name; a hello that names none means `none`.
pub fn find_guard(name: &str) -> Option<&'static dyn Guard> {
    let name = if name.is_empty() { "none" } else { name };
    guards().iter().copied().find(|guard| guard.name() == name)
}

/// For the literal sequences in the tests of guards.
#[cfg(test)]
mod literal {
    use super::*;

    pub(super) fn token(token: u64) -> Credentials {
        Credentials { token: Some(token), ..Credentials::default() }
    }

    pub(super) fn unique(value: &str) -> Credentials {
        Credentials { unique: Some(value.to_owned()), ..Credentials::default() }
    }

    pub(super) fn write(credentials: Credentials) -> Write {
        Write { value: 1.into(), credentials }
    }
}
