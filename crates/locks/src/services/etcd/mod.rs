//! Locks on etcd, a cluster with consensus. One file a recipe: `mutex.rs`, `lock_api.rs`, `chubby.rs`,
//! `kubernetes.rs`; what
//! they share is in `recipe.rs`, what answers mean in `decisions.rs`, the servers are in `service.rs`.

mod api;
mod chubby;
mod client;
mod decisions;
mod existing;
mod kubernetes;
mod leader;
mod lock_api;
mod members;
mod membership;
mod mutex;
mod orders;
mod queue;
mod recipe;
mod sequencers;
mod service;
mod session;
mod user;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[
    &mutex::LOCK,
    &lock_api::LOCK,
    &chubby::LOCK,
    &mutex::READ_WRITE,
    &mutex::SEMAPHORE,
    &mutex::ELECTION,
    &kubernetes::LOCK,
];
