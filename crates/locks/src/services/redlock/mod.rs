//! `redlock`: a lock on a majority of Redis servers. Source: the Redis documentation, "Distributed locks
//! with Redis", sections "The Redlock algorithm", "Retry on failure", "Releasing the lock".

mod ballots;
mod lock;
mod tokens;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[&lock::LOCK];
