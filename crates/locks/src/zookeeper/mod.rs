//! Locks on ZooKeeper, which live as long as a session does: `zookeeper-ephemeral` and `zookeeper-sequential`, and Hadoop's
//! election, `hadoop`.
//!
//! Sources: ZooKeeper's "Recipes and Solutions", section "Locks"; and Apache Curator's `LockInternals` and
//! `StandardLockInternalsDriver`, with the protected creation of `CreateBuilderImpl` (a random part of the name by
//! which a client finds its own znode after the connection broke).

mod attempt;
mod fencer;
mod hadoop;
mod lock;
mod recipe;
mod service;
mod session;

use crate::definition::LockDefinition;

pub use fencer::{FENCER_PORT, run_fencer};

/// The locks on ZooKeeper: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&recipe::EPHEMERAL, &recipe::SEQUENTIAL, &hadoop::LOCK];
