//! `redlock`: a lock on a majority of Redis servers. Source: the Redis documentation, "Distributed locks
//! with Redis", sections "The Redlock algorithm", "Retry on failure", "Releasing the lock".

mod ballots;
mod lock;
mod recipe;
mod tokens;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[&recipe::LOCK];
