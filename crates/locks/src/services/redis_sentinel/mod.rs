//! `redis-sentinel`: a primary with two replicas, and three Sentinels that promote a replica when the primary
//! is gone.
//!
//! Sources: the Redis documentation, "High availability with Redis Sentinel" and "Sentinel client spec"; of
//! the lock, see redis/lock.rs.

mod configuration;
mod leader;
mod primary;
mod recipe;
mod service;

use crate::definition::LockDefinition;

/// The locks on a primary with Sentinels: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&recipe::LOCK];
