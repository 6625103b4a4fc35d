//! `postgres-advisory`: a lock that belongs to a connection, and means what its users say it means.

use super::connection::{Connection, answer};
use super::decisions::{AfterLock, after_advisory_taken_back, after_lock, after_unlock, ended_with_grant};
use super::server::PostgresServer;
use super::service::POSTGRES;
use crate::attempts::wait_until;
use crate::capabilities::Capabilities;
use crate::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::notices::Notices;
use crate::recipe::Lock;
use crate::sql::{Failed, SqlRecipe, keepalive_probes};
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Grant, Lease, OperationError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "postgres-advisory",
    about: "pg_advisory_lock: a lock that lives as long as the connection, for data that is elsewhere",
    claims: "exclusion while the holder's connection lives, ownership, progress; no fencing; one server, no availability",
    service: &POSTGRES,
    recipe: &SqlRecipe::<PostgresServer> {
        // Keepalives are counted in whole seconds: one of silence, and one to answer.
        ttl_min: Duration::from_secs(2),
        lock: |client, _, notices| Box::new(AdvisoryLock::new(client.server.clone(), notices)),
    },
    options: &[],
    capabilities: |_| Capabilities { lease: Lease::Connection, loss_notice: true, ..Capabilities::NONE },
};

struct AdvisoryLock {
    server: Arc<PostgresServer>,
    notices: Notices,
    connection: Option<Connection>,
    ttl: Duration,
}

impl AdvisoryLock {
    fn new(server: Arc<PostgresServer>, notices: Notices) -> AdvisoryLock {
        AdvisoryLock { server, notices, connection: None, ttl: Duration::ZERO }
    }

    async fn connect(&mut self, ttl: Duration, deadline: Instant) -> Result<(), OperationError> {
        if self.ttl == ttl && self.connection.as_ref().is_some_and(Connection::lives) {
            return Ok(());
        }
        (self.connection, self.ttl) = (None, ttl);
        let settings = keepalives(ttl);
        let opened = Connection::open(&self.server, &settings, self.notices.clone(), deadline).await?;
        self.connection = Some(opened);
        Ok(())
    }
}

async fn unlock(connection: &Connection, key: &str, deadline: Instant) -> Result<bool, Failed> {
    let unlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
    answer(connection.client.query_one(unlock, &[&key]), deadline).await.map(|row| row.get(0))
}

/// Settings by which the server finds, no sooner than the TTL and about then, that a silent connection is
/// dead: probes each second, of which the first comes after a second of silence.
fn keepalives(ttl: Duration) -> String {
    format!(
        "-c tcp_keepalives_idle=1 -c tcp_keepalives_interval=1 -c tcp_keepalives_count={} -c tcp_user_timeout={}",
        keepalive_probes(ttl),
        ttl.as_millis()
    )
}

#[async_trait]
impl Lock for AdvisoryLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let begun = Instant::now();
        let deadline = begun + timeout;
        if let Err(why) = self.connect(ttl, deadline).await {
            // Without a connection nothing was asked for.
            return Completion::Fail(why);
        }
        let Some(connection) = &self.connection else { unreachable!("just connected") };
        let patience = millis_until(begun + wait_until(timeout)).max(1);
        let set = format!("SET lock_timeout = {patience}");
        if let Err(failed) = answer(connection.client.batch_execute(&set), deadline).await {
            // The lock was not even asked for.
            self.connection = None;
            return Completion::Fail(failed.why());
        }
        let lock = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
        let end =
            match after_lock(answer(connection.client.query_one(lock, &[&key]), deadline).await.map(drop)) {
                AfterLock::Granted if connection.hold(key) => return Completion::ok(Grant::default()),
                AfterLock::Granted => ended_with_grant(),
                AfterLock::TakeBack(why) => {
                    after_advisory_taken_back(unlock(connection, key, deadline).await, why)
                }
                AfterLock::End(end) => end,
            };
        end.close(&mut self.connection)
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(connection) = self.connection.as_ref().filter(|connection| connection.let_go(key)) else {
            // The lock was never granted, or went with its connection: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "no connection holds the lock");
        };
        let end = after_unlock(unlock(connection, key, deadline).await);
        end.close(&mut self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_connection_is_found_when_the_ttl_is_over() {
        let settings = keepalives(Duration::from_millis(2500));
        assert!(settings.contains("tcp_keepalives_count=2 "), "{settings}");
        assert!(settings.ends_with("tcp_user_timeout=2500"), "{settings}");
    }
}
