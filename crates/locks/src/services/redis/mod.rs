//! Locks on Redis. `redis_cluster`, `redis_sentinel` and `redlock` use the server, connection and lock here.

pub(crate) mod access;
pub(crate) mod ask;
mod decisions;
mod existing;
pub(crate) mod in_turn;
pub(crate) mod lock;
pub(crate) mod node;
pub(crate) mod orders;
mod read_write;
mod reentrant;
mod semaphore;
pub(crate) mod service;
mod several;
mod shared;
mod single;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[
    &single::LOCK,
    &single::VALKEY,
    &read_write::LOCK,
    &semaphore::LOCK,
    &reentrant::LOCK,
    &several::LOCK,
    &single::ELECTION,
];
