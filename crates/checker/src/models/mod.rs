//! The objects that locks are made of: a model for each, its words in history files, and a fast algorithm.

pub(crate) mod lease_mutex;
pub mod mutex;
pub mod owner_mutex;
mod pending;
pub mod register;
#[cfg(test)]
mod sets_tests;
pub mod shared_lock;
mod values;

pub use mutex::{Mutex, MutexOp};
pub use owner_mutex::{FencedMutex, LockOp, OwnerMutex, ReentrantMutex};
pub use register::{Register, RegisterOp, RegisterRet};
pub use shared_lock::{ShareOp, SharedLock};
pub use values::Values;

use crate::claim::Claim;
use crate::model::FastPath;
use fencepost_history::AcquireArguments;

/// How a model's operations are written in a history file. Values come as JSON text.
pub trait Codec: FastPath {
    fn invoke(&mut self, process: u64, f: &str, value: &str) -> Result<Self::Op, EventRefusal>;

    /// What an operation returned, from the value of its `ok`.
    fn complete(&mut self, op: &Self::Op, value: &str) -> Result<Self::Ret, EventRefusal>;

    /// What a `fail` with this error says about the object; none where it says only that nothing happened.
    fn fail(&mut self, _op: &Self::Op, _error: &str) -> Option<Self::Ret> {
        None
    }
}

/// Why an event is none of a model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRefusal {
    /// Carries the operations that the model knows.
    UnknownOperation(&'static str),
    /// Says what the value should be.
    WrongValue(&'static str),
    /// An acquire asks for a lock that others may hold beside it, which the model does not know.
    NotAlone,
}

pub(crate) fn refuse_others_beside(value: &str) -> Result<(), EventRefusal> {
    if !value.contains("mode") && !value.contains("capacity") {
        return Ok(());
    }
    let value: serde_json::Value = serde_json::from_str(value).unwrap_or_default();
    let is_alone = Claim::asked(&AcquireArguments::of(&value)).is_alone();
    if is_alone { Ok(()) } else { Err(EventRefusal::NotAlone) }
}

pub(crate) fn integer(value: &str) -> Option<i64> {
    value.trim().parse().ok().or_else(|| {
        // 3.0 is a whole number too, to its author.
        let number: f64 = serde_json::from_str(value).ok()?;
        (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
    })
}
