//! `postgres-advisory`, `postgres-read-write`, `postgres-election` and `postgres-several`: a connection's.

use super::connection::{Connection, answer};
use super::decisions::{AfterLock, after_advisory_taken_back, after_lock, after_unlock, ended_with_grant};
use super::server::PostgresServer;
use super::service::POSTGRES;
use crate::attempts::wait_until;
use crate::capabilities::Capabilities;
use crate::client::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::notices::Notices;
use crate::options::{ReaderRelease, TakeNames};
use crate::recipe::{Lock, Share};
use crate::sql::{Failed, SqlClient, SqlRecipe, keepalive_probes};
use async_trait::async_trait;
use fencepost_cluster::OwnTask;
use fencepost_history::{Completion, ErrorCode, Grant, Lease, LockKind};
use serde_json::Value;
use std::collections::HashSet;
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
        lock: |client, _, notices| Box::new(AdvisoryLock::new(&client, notices)),
    },
    options: &[],
    capabilities: |_| Capabilities { lease: Lease::Connection, loss_notice: true, ..Capabilities::NONE },
};

/// Source: PostgreSQL's documentation, "Advisory Lock Functions".
pub(super) static READ_WRITE: LockDefinition = LockDefinition {
    name: "postgres-read-write",
    about: "pg_advisory_lock for writers, pg_advisory_lock_shared for readers: as postgres-advisory, for many who only read",
    claims: "exclusion of writers while the holders' connections live, ownership, progress; no fencing; one server, no availability",
    options: &["reader-release"],
    capabilities: |options| Capabilities { kind: LockKind::ReadWrite, ..(LOCK.capabilities)(options) },
    ..LOCK
};

pub(super) static ELECTION: LockDefinition = LockDefinition {
    name: "postgres-election",
    about: "pg_advisory_lock on a connection that its process keeps for as long as it leads",
    claims: LOCK.claims,
    recipe: &SqlRecipe::<PostgresServer> {
        ttl_min: Duration::from_secs(2),
        lock: |client, _, notices| {
            let unwatched = client.options.unwatched;
            let lock = AdvisoryLock::new(&client, notices.unwatched(unwatched));
            Box::new(AdvisoryLock { is_watched: !unwatched, ..lock })
        },
    },
    options: &["unwatched"],
    capabilities: |options| Capabilities { kind: LockKind::Election, ..(LOCK.capabilities)(options) },
    ..LOCK
};

/// Source: PostgreSQL's documentation, "Deadlocks": a consistent order in which all acquire several locks.
pub(super) static SEVERAL: LockDefinition = LockDefinition {
    name: "postgres-several",
    about: "pg_advisory_lock of each name of a set, in the order of the names, which is the same for all",
    claims: LOCK.claims,
    options: &["take-names"],
    capabilities: |options| Capabilities { kind: LockKind::Several, ..(LOCK.capabilities)(options) },
    ..LOCK
};

struct AdvisoryLock {
    server: Arc<PostgresServer>,
    notices: Notices,
    connection: Option<Connection>,
    reader_release: ReaderRelease,
    take_names: TakeNames,
    is_watched: bool,
    watch: Option<OwnTask>,
    /// The keys that it holds as a reader.
    read: HashSet<String>,
}

impl AdvisoryLock {
    fn new(client: &SqlClient<PostgresServer>, notices: Notices) -> AdvisoryLock {
        AdvisoryLock {
            server: client.server.clone(),
            notices,
            connection: None,
            reader_release: client.options.reader_release,
            take_names: client.options.take_names,
            is_watched: false,
            watch: None,
            read: HashSet::new(),
        }
    }
}

const SHARED: &str = "_shared";

/// `suffix`: [`SHARED`] of the functions for shared locks, else nothing.
async fn unlock(connection: &Connection, suffix: &str, key: &str, deadline: Instant) -> Result<bool, Failed> {
    let unlock = format!("SELECT pg_advisory_unlock{suffix}(hashtextextended($1, 0))");
    answer(connection.client.query_one(&unlock, &[&key]), deadline).await.map(|row| row.get(0))
}

/// Settings by which the server finds a silent connection dead at about the TTL, by probes each second.
fn keepalives(ttl: Duration) -> String {
    format!(
        "-c tcp_keepalives_idle=1 -c tcp_keepalives_interval=1 -c tcp_keepalives_count={} -c tcp_user_timeout={}",
        keepalive_probes(ttl),
        ttl.as_millis()
    )
}

impl AdvisoryLock {
    async fn take(&mut self, key: &str, suffix: &str, ttl: Duration, timeout: Duration) -> Completion {
        let begun = Instant::now();
        let deadline = begun + timeout;
        let AdvisoryLock { connection: there, server, notices, .. } = self;
        let connection = match Connection::current(there, server, &keepalives(ttl), notices, deadline).await {
            Ok(connection) => connection,
            // Without a connection nothing was asked for.
            Err(why) => return Completion::Fail(why),
        };
        let patience = millis_until(begun + wait_until(timeout)).max(1);
        let set = format!("SET lock_timeout = {patience}");
        if let Err(failed) = answer(connection.client.batch_execute(&set), deadline).await {
            // The lock was not even asked for.
            self.connection = None;
            return Completion::Fail(failed.why());
        }
        let lock = format!("SELECT pg_advisory_lock{suffix}(hashtextextended($1, 0))");
        let end =
            match after_lock(answer(connection.client.query_one(&lock, &[&key]), deadline).await.map(drop)) {
                AfterLock::Granted if connection.hold(key) => {
                    self.watch = self.is_watched.then(|| connection.watch(ttl));
                    return Completion::ok(Grant::default());
                }
                AfterLock::Granted => ended_with_grant(),
                AfterLock::TakeBack(why) => {
                    after_advisory_taken_back(unlock(connection, suffix, key, deadline).await, why)
                }
                AfterLock::End(end) => end,
            };
        end.close(&mut self.connection)
    }

    /// Gives back the names that were taken before one was refused, and says how the acquire of all ended.
    async fn give_up(&mut self, taken: &[&str], ended: Completion, deadline: Instant) -> Completion {
        let why = match ended {
            Completion::Fail(why) if !taken.is_empty() => why,
            // Nothing was taken; or it is not known, and ended with the connection.
            ended => return ended,
        };
        for name in taken {
            let Some(connection) = self.connection.as_ref().filter(|connection| connection.held.let_go(name))
            else {
                // What was taken is taken until the server notices that the connection is gone.
                self.connection = None;
                return Completion::Info(why);
            };
            if self.take_names != TakeNames::LeaveHalf
                && unlock(connection, "", name, deadline).await.is_err()
            {
                self.connection = None;
                return Completion::Info(why);
            }
        }
        Completion::Fail(why)
    }
}

#[async_trait]
impl Lock for AdvisoryLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        self.acquire_share(key, None, ttl, timeout).await
    }

    async fn acquire_all(&mut self, names: &[&str], ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let mut names = names.to_vec();
        if self.take_names == TakeNames::AllOrNone {
            names.sort_unstable();
        }
        for (at, name) in names.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = self.take(name, "", ttl, left).await;
            if !matches!(ended, Completion::Ok(_)) {
                return self.give_up(&names[..at], ended, deadline).await;
            }
        }
        let connection = self.connection.as_ref();
        if connection.is_some_and(|connection| names.iter().all(|name| connection.held.contain(name))) {
            return Completion::ok(Grant::default());
        }
        // The connection of the first of them was over before the last was granted on another.
        self.connection = None;
        Completion::info(ErrorCode::SessionExpired, "a connection ended before all names were granted")
    }

    async fn release_all(&mut self, names: &[&str], timeout: Duration) -> Completion {
        let mut ended = Completion::Ok(Value::Null);
        for name in names {
            match self.release(name, timeout / names.len() as u32).await {
                Completion::Ok(_) => {}
                // Not all of them were there, or it is not known: so it is not of the set either.
                other => ended = other,
            }
        }
        ended
    }

    async fn acquire_share(
        &mut self,
        key: &str,
        share: Option<Share>,
        ttl: Duration,
        timeout: Duration,
    ) -> Completion {
        if share.is_none() {
            self.read.remove(key);
            return self.take(key, "", ttl, timeout).await;
        }
        self.read.insert(key.to_owned());
        self.take(key, SHARED, ttl, timeout).await
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        self.watch = None;
        let is_shared = self.read.remove(key) && self.reader_release == ReaderRelease::Shared;
        let suffix = if is_shared { SHARED } else { "" };
        let Some(connection) = self.connection.as_ref().filter(|connection| connection.held.let_go(key))
        else {
            // The lock was never granted, or went with its connection, which the server may not know of.
            self.connection.take_if(|connection| !connection.lives());
            return Completion::fail(ErrorCode::NotHeld, "no connection holds the lock");
        };
        let end = after_unlock(unlock(connection, suffix, key, deadline).await);
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
