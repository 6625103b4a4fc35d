//! Guards: which writes the storage accepts. One file each; [`guards`] names them all.

mod none;
mod token;

/// Decides which writes the storage accepts.
pub trait Guard: Send + Sync {
    /// As on the command line.
    fn name(&self) -> &'static str;
    /// One line for `fencepost list`.
    fn about(&self) -> &'static str;
    /// Whether each write must carry the fencing token of the lock under which it was made.
    fn needs_token(&self) -> bool;
    /// Accepts the write, noting in the record what later decisions need, or says why not: a code, a colon and
    /// words. The storage calls it and stores the value in one step.
    fn admit(&self, record: &mut Record, write: &Write) -> Result<(), String>;
    /// Notes the token of a read, where it carries one. A read is never refused.
    fn saw_read(&self, _record: &mut Record, _token: Option<u64>) {}
}

/// What the storage keeps for a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub value: i64,
    /// The highest token that was seen.
    pub token_max: Option<u64>,
}

/// A write that wants to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub value: i64,
    pub token: Option<u64>,
}

/// Every guard: one line each.
pub fn guards() -> &'static [&'static dyn Guard] {
    &[&none::NoGuard, &token::Token]
}

/// The guard of that name; a hello that names none means `none`.
pub fn find_guard(name: &str) -> Option<&'static dyn Guard> {
    let name = if name.is_empty() { "none" } else { name };
    guards().iter().copied().find(|guard| guard.name() == name)
}
