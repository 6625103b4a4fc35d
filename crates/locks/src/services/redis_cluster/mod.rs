//! `redis-cluster`: three primaries, each with a replica, that share the keys by hash slots. All locks are on
//! one shard, so that one primary decides, and its failover concerns all locks. Sources: the Redis
//! documentation, "Redis cluster specification" and "Scale with Redis Cluster"; redis/lock.rs for the lock.

mod configuration;
mod reshard;
mod service;
mod shard;
mod view;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[&service::LOCK];
