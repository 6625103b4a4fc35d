//! `redis-cluster`: three primaries, each with a replica, that share the keys by hash slots. Every lock
//! lies on the same shard, so that one primary decides, and its failover is a failover of all locks.
//!
//! Sources: the Redis documentation, "Redis cluster specification" and "Scale with Redis Cluster"; of the
//! lock, see redis/lock.rs.

mod configuration;
mod recipe;
mod service;
mod shard;
mod view;

use crate::definition::LockDefinition;

/// The locks on a Redis Cluster: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&recipe::LOCK];
