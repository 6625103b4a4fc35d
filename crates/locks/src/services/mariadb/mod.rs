//! Locks in MariaDB: `mariadb-advisory`, a lock of a connection, and `mariadb-row`, a row with a lease and a
//! fencing token. Sources: the MariaDB documentation, "GET_LOCK", "RELEASE_LOCK" and "Server System
//! Variables"; the MySQL manual, "Locking Functions" and "Automatic Reconnection Control"; for the row,
//! ShedLock's `JdbcTemplateLockProvider` with `usingDbTime` and Spring Integration's `JdbcLockRegistry`.

mod advisory;
mod connection;
mod decisions;
mod row;
mod server;
mod service;
mod statements;

use crate::definition::LockDefinition;

pub(crate) static LOCKS: &[&LockDefinition] = &[&advisory::LOCK, &row::LOCK];
