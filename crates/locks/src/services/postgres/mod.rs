//! Locks in PostgreSQL: `postgres-row` and `postgres-version`, with the data beside the lock, and
//! `postgres-advisory`, for data elsewhere. Sources: PostgreSQL's documentation, "Explicit Locking" and
//! "Client Connection Defaults"; Martin Kleppmann's "How to do distributed locking".

mod advisory;
mod connection;
mod decisions;
mod orders;
mod psql;
mod row;
mod server;
mod service;
mod version;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[
    &advisory::LOCK,
    &row::LOCK,
    &version::LOCK,
    &advisory::READ_WRITE,
    &advisory::ELECTION,
    &advisory::SEVERAL,
];
