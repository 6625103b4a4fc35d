//! `redlock`: the lock on a majority of independent Redis servers.
//!
//! Source: the Redis documentation, "Distributed locks with Redis", sections "The Redlock algorithm", "Retry
//! on failure" and "Releasing the lock".

mod ballots;
mod lock;
mod recipe;
mod tokens;

use crate::definition::LockDefinition;

/// The locks on independent Redis servers: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&recipe::LOCK];
