//! `postgres-version`: no lock is waited for; a write is accepted if the version that was read still stands.

use super::connection::{Connection, answer};
use super::decisions::{after_update_of_version, read};
use super::row::INSERT;
use super::server::PostgresServer;
use super::service::POSTGRES;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::notices::Notices;
use crate::recipe::Lock;
use crate::sql::{Failed, SqlRecipe};
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Grant, OperationError};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "postgres-version",
    about: "no lock: read a version, and write only if it is still the same; the second writer is refused",
    claims: "no lost update; no exclusion: all may work at once, and one of them wins; one server, no availability",
    service: &POSTGRES,
    recipe: &SqlRecipe::<PostgresServer> {
        ttl_min: Duration::ZERO,
        lock: |client, _, notices| Box::new(VersionLock::new(client.server.clone(), notices)),
    },
    options: &[],
    capabilities: |_| Capabilities { own_storage: true, ..Capabilities::NONE },
};

struct VersionLock {
    server: Arc<PostgresServer>,
    notices: Notices,
    connection: Option<Connection>,
    /// What was read as the section began: key, value, version.
    seen: Option<(String, String, i64)>,
}

impl VersionLock {
    fn new(server: Arc<PostgresServer>, notices: Notices) -> VersionLock {
        VersionLock { server, notices, connection: None, seen: None }
    }

    /// The value and its version; nothing is changed but that the key is there.
    async fn look(&mut self, key: &str, deadline: Instant) -> Result<(String, i64), OperationError> {
        let VersionLock { connection, server, notices, .. } = self;
        let connection = Connection::current(connection, server, "", notices, deadline).await?;
        let select = "SELECT value, version FROM protected WHERE key = $1";
        let mut row =
            answer(connection.client.query_opt(select, &[&key]), deadline).await.map_err(Failed::why)?;
        if row.is_none() {
            answer(connection.client.execute(INSERT, &[&key]), deadline).await.map_err(Failed::why)?;
            row =
                answer(connection.client.query_opt(select, &[&key]), deadline).await.map_err(Failed::why)?;
        }
        row.map(|row| (row.get(0), row.get(1)))
            .ok_or_else(|| ErrorCode::Refused.error("the key is not there"))
    }
}

#[async_trait]
impl Lock for VersionLock {
    /// Notes the version. It reports that it excludes no process, so that no overlap counts as a violation.
    async fn acquire(&mut self, key: &str, _ttl: Duration, timeout: Duration) -> Completion {
        match self.look(key, Instant::now() + timeout).await {
            Ok((value, version)) => {
                self.seen = Some((key.to_owned(), value, version));
                let (exclusive, version) = (Some(false), Some(version));
                Completion::ok(Grant { exclusive, version, ..Grant::default() })
            }
            // It only reads: there is nothing that could be held.
            Err(why) => {
                self.connection = None;
                Completion::Fail(why)
            }
        }
    }

    /// Forgets the version. There is nothing to send.
    async fn release(&mut self, _key: &str, _timeout: Duration) -> Completion {
        self.seen = None;
        Completion::Ok(Value::Null)
    }

    /// The value of the version, read as the section began; outside of a section, the current one.
    async fn read(&mut self, key: &str, timeout: Duration) -> Completion {
        if let Some((_, value, _)) = self.seen.as_ref().filter(|(seen, ..)| seen == key) {
            return read(value);
        }
        match self.look(key, Instant::now() + timeout).await {
            Ok((value, _)) => read(&value),
            // A read changes nothing: without an answer it has not happened.
            Err(why) => Completion::Fail(why),
        }
    }

    async fn write(&mut self, key: &str, value: &Value, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some((_, _, version)) = self.seen.take_if(|(seen, ..)| seen == key) else {
            return Completion::fail(ErrorCode::NotHeld, "no version was read that could be written over");
        };
        let Some(connection) = self.connection.as_ref().filter(|connection| connection.lives()) else {
            return Completion::fail(ErrorCode::Unreachable, "no connection to PostgreSQL");
        };
        let update = "UPDATE protected SET value = $2, version = version + 1 WHERE key = $1 AND version = $3";
        let updated =
            answer(connection.client.execute(update, &[&key, &value.to_string(), &version]), deadline).await;
        after_update_of_version(updated, version, value).close(&mut self.connection)
    }
}
