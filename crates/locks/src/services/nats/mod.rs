//! `nats`: an entry of a key-value bucket of NATS JetStream, created where there is none, which expires with
//! the bucket's TTL. Its revision is a fencing token. Sources: the NATS documentation, "Key/Value Store" and
//! "JetStream clustering"; a write expects a revision by the header `Nats-Expected-Last-Subject-Sequence`.

mod client;
mod decisions;
mod lock;
mod monitor;
mod service;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[&lock::LOCK];
