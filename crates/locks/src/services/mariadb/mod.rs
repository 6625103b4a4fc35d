//! Locks in MariaDB: `mariadb-advisory`, a lock that belongs to a connection, and `mariadb-row`, a row with a
//! lease and a fencing token.
//!
//! Source: the MariaDB documentation, "GET_LOCK", "RELEASE_LOCK" and "Server System Variables"; the MySQL
//! manual, "Locking Functions" and "Automatic Reconnection Control"; for the row, what libraries with a table
//! of locks do (ShedLock's `JdbcTemplateLockProvider` with `usingDbTime`, Spring Integration's
//! `JdbcLockRegistry`).

mod advisory;
mod connection;
mod decisions;
mod row;
mod server;
mod service;
mod statements;

use crate::definition::LockDefinition;

/// The locks in MariaDB: one line each.
pub(crate) static LOCKS: &[&LockDefinition] = &[&advisory::LOCK, &row::LOCK];
