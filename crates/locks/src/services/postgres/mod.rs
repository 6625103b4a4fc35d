//! Locks in PostgreSQL: `postgres-row` and `postgres-version`, which keep the data beside the lock, and
//! `postgres-advisory`, which protects data elsewhere.
//!
//! Source: PostgreSQL's documentation, sections "Explicit Locking" (row-level and advisory locks) and "Client
//! Connection Defaults"; and the remark in Martin Kleppmann's "How to do distributed locking" that a
//! transactional database needs no lock service.

mod advisory;
mod connection;
mod decisions;
mod row;
mod server;
mod service;
mod version;

use crate::definition::LockDefinition;

/// The locks in PostgreSQL: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&advisory::LOCK, &row::LOCK, &version::LOCK];
