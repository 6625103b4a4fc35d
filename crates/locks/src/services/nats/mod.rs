//! `nats`: an entry of a key-value bucket of NATS JetStream, created where there is none, which expires
//! with the bucket's TTL. Its revision is a fencing token.
//!
//! Sources: the NATS documentation, "Key/Value Store" and "JetStream clustering"; the revisions that a write
//! expects are those of JetStream's header `Nats-Expected-Last-Subject-Sequence`.

mod client;
mod decisions;
mod lock;
mod monitor;
mod recipe;
mod service;

use crate::definition::LockDefinition;

/// The locks on NATS: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&recipe::LOCK];
