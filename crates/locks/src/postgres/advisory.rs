//! `postgres-advisory`: a lock that belongs to a connection, and means what its users say it means.

use super::connection::{Connection, Failed, answer, wait_until};
use super::recipe::PostgresRecipe;
use super::service::PostgresServer;
use crate::capabilities::Capabilities;
use crate::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::notices::Notices;
use crate::recipe::Lock;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Lease, OperationError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "postgres-advisory",
    about: "pg_advisory_lock: a lock that lives as long as the connection, for data that is elsewhere",
    claims: "exclusion while the holder's connection lives, ownership, progress; no fencing; one server, no availability",
    service: &PostgresServer,
    recipe: &PostgresRecipe {
        // Keepalives are counted in whole seconds: one of silence, and one to answer.
        ttl_min: Duration::from_secs(2),
        lock: |address, notices| Box::new(AdvisoryLock::new(address, notices)),
    },
    options: &[],
    capabilities: |_| Capabilities { lease: Lease::Connection, loss_notice: true, ..Capabilities::NONE },
};

struct AdvisoryLock {
    address: Arc<str>,
    notices: Notices,
    connection: Option<Connection>,
    ttl: Duration,
}

impl AdvisoryLock {
    fn new(address: Arc<str>, notices: Notices) -> AdvisoryLock {
        AdvisoryLock { address, notices, connection: None, ttl: Duration::ZERO }
    }

    async fn connect(&mut self, ttl: Duration, deadline: Instant) -> Result<(), OperationError> {
        if self.ttl == ttl && self.connection.as_ref().is_some_and(Connection::lives) {
            return Ok(());
        }
        (self.connection, self.ttl) = (None, ttl);
        let settings = keepalives(ttl);
        let opened = Connection::open(&self.address, &settings, self.notices.clone(), deadline).await?;
        self.connection = Some(opened);
        Ok(())
    }
}

/// Settings by which the server finds, no sooner than the TTL and about then, that a silent connection is dead: probes
/// each second, of which the first comes after a second of silence.
fn keepalives(ttl: Duration) -> String {
    let probes = ttl.as_secs_f64().ceil() as u64 - 1;
    format!(
        "-c tcp_keepalives_idle=1 -c tcp_keepalives_interval=1 -c tcp_keepalives_count={} -c tcp_user_timeout={}",
        probes.max(1),
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
        let failed = match answer(connection.client.batch_execute(&set), deadline).await {
            Ok(()) => {
                let lock = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
                match answer(connection.client.query_one(lock, &[&key]), deadline).await {
                    Ok(_) => {
                        if !connection.hold(key) {
                            self.connection = None;
                            return Completion::fail(
                                ErrorCode::SessionExpired,
                                "the connection ended before the grant was known",
                            );
                        }
                        return Completion::Ok(json!({}));
                    }
                    Err(failed) => failed,
                }
            }
            // The lock was not even asked for.
            Err(failed) => {
                self.connection = None;
                return Completion::Fail(failed.why());
            }
        };
        match failed {
            Failed::Refused { lock_timeout: true, .. } => {
                Completion::fail(ErrorCode::Taken, "another client holds the lock")
            }
            // The statement failed: no lock was taken.
            Failed::Refused { why, .. } => Completion::Fail(why),
            // The lock may be taken, or may be yet, until the server notices that the connection is gone.
            Failed::Unknown(why) => {
                self.connection = None;
                Completion::Info(why)
            }
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(connection) = self.connection.take_if(|connection| connection.let_go(key)) else {
            // The lock was never granted, or went with its connection: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "no connection holds the lock");
        };
        let unlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
        match answer(connection.client.query_one(unlock, &[&key]), deadline).await {
            Ok(row) => {
                self.connection = Some(connection);
                match row.get(0) {
                    true => Completion::Ok(Value::Null),
                    // Carried out, and this connection did not hold it.
                    false => Completion::fail(ErrorCode::NotHeld, "the lock was no longer this process's"),
                }
            }
            // Not carried out; the lock ends with the connection, which is closed now.
            Err(Failed::Refused { why, .. }) => Completion::Fail(why),
            // A write without an answer. The connection is closed now, and the lock ends when the server hears of it.
            Err(Failed::Unknown(why)) => Completion::Info(why),
        }
    }

    /// Nothing says until when it is valid: the connection can die without a word.
    fn still_valid(&self, _key: &str) -> Option<bool> {
        None
    }

    fn token(&self, _key: &str) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_connection_is_found_when_the_ttl_is_over() {
        // One second of silence, and then a second for each probe.
        for (ttl_ms, count) in [(2000, 1), (2500, 2), (10_000, 9)] {
            let settings = keepalives(Duration::from_millis(ttl_ms));
            assert!(settings.contains(&format!("tcp_keepalives_count={count} ")), "{settings}");
            assert!(settings.ends_with(&format!("tcp_user_timeout={ttl_ms}")), "{settings}");
        }
    }
}
