//! How the clocks of a program can be moved.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a lock says of its servers, what a user asks for, and what a fault says it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockMechanism {
    /// The running program is patched where it asks for the time. For C and Go.
    Vdso,
    /// libfaketime is preloaded. For programs that ask and wait through libc: a JVM.
    Faketime,
}

impl fmt::Display for ClockMechanism {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.serialize(f)
    }
}
