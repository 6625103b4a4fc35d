//! Locks on Redis: the server, a client's connection to it, and the lock on one server. `redis_cluster`,
//! `redis_sentinel` and `redlock` use them, too.

pub(crate) mod access;
mod ask;
mod decisions;
mod existing;
pub(crate) mod in_turn;
pub(crate) mod lock;
pub(crate) mod node;
pub(crate) mod refusals;
pub(crate) mod service;
mod single;

use crate::definition::LockDefinition;

/// The locks on one server of Redis or Valkey: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&single::LOCK, &single::VALKEY];
