//! `redis-sentinel`: a primary with two replicas, and three Sentinels that promote a replica when it is gone.
//! Sources: the Redis documentation, "High availability with Redis Sentinel" and "Sentinel client spec".

mod configuration;
mod leader;
mod primary;
mod reset;
mod service;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[&service::LOCK];
