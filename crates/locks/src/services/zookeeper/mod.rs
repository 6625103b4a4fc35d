//! Locks of ZooKeeper sessions: `zookeeper-ephemeral`, `zookeeper-sequential`, `zookeeper-election`, the
//! locks that several may hold (`recipe.rs`), and Hadoop's election, `hadoop`. Sources: ZooKeeper's "Recipes
//! and Solutions", section "Locks"; Apache Curator's `LockInternals` and `StandardLockInternalsDriver`, with
//! the protected creation of `CreateBuilderImpl` (a random part of the name).

mod attempt;
mod decisions;
mod fencing;
mod hadoop;
mod lock;
mod membership;
mod recipe;
mod servers;
mod service;
mod session;
#[cfg(test)]
mod testing;

use crate::definition::LockDefinition;

pub use fencing::{FENCING_PORT, run_fencing};

pub(crate) static LOCKS: &[&LockDefinition] = &[
    &recipe::SEQUENTIAL,
    &recipe::EPHEMERAL,
    &hadoop::LOCK,
    &recipe::READ_WRITE,
    &recipe::SEMAPHORE,
    &recipe::ELECTION,
];
