//! One process's connection to the server, and what becomes of its locks when it ends.

use super::server::PostgresServer;
use crate::held::HeldKeys;
use crate::notices::Notices;
use crate::sql::{self, Failed};
use fencepost_cluster::OwnTask;
use fencepost_history::{ErrorCode, OperationError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{Client, Error};

/// Dropping it closes it, as the end of a program would; the server then ends its transaction and locks.
pub(super) struct Connection {
    pub(super) client: Arc<Client>,
    settings: String,
    /// The keys that the process holds.
    pub(super) held: Arc<HeldKeys>,
    notices: Notices,
    /// A watch had no answer from the server.
    silent: Arc<AtomicBool>,
}

impl Connection {
    /// The connection that is there, if it lives and has these settings, or else a new one in its place.
    pub(super) async fn current<'a>(
        there: &'a mut Option<Connection>,
        server: &PostgresServer,
        settings: &str,
        notices: &Notices,
        deadline: Instant,
    ) -> Result<&'a Connection, OperationError> {
        let kept = there.take().filter(|kept| kept.lives() && kept.settings == settings);
        let current = match kept {
            Some(kept) => kept,
            None => Connection::open(server, settings, notices.clone(), deadline).await?,
        };
        Ok(there.insert(current))
    }

    /// Connects. `settings` are the server's, for this connection only (`-c lock_timeout=5s`).
    async fn open(
        server: &PostgresServer,
        settings: &str,
        notices: Notices,
        deadline: Instant,
    ) -> Result<Connection, OperationError> {
        let (client, driver) = sql::connect(server, settings, deadline).await?;
        let held = Arc::new(HeldKeys::new(notices.clone()));
        let ending = held.clone();
        tokio::spawn(async move {
            match driver.await {
                Ok(()) => ending.lose("closed: the connection is over"),
                Err(error) => ending.lose(&format!("closed: {}", words(&error))),
            }
        });
        let (client, settings) = (Arc::new(client), settings.to_owned());
        Ok(Connection { client, settings, held, notices, silent: Arc::default() })
    }

    pub(super) fn lives(&self) -> bool {
        !self.client.is_closed() && !self.silent.load(Ordering::Relaxed)
    }

    /// Watches the connection of a new grant: what is held is reported as lost well before the server ends a
    /// connection silent for that TTL. It asks at once: this client may have been stopped.
    pub(super) fn watch(&self, ttl: Duration) -> OwnTask {
        let (client, held, silent) = (self.client.clone(), self.held.clone(), self.silent.clone());
        OwnTask::spawn(async move {
            let mut heard = Instant::now();
            let mut next = heard;
            loop {
                sleep_until(next).await;
                let sent = Instant::now();
                // A client that was stopped for so long finds that, too.
                match timeout_at(heard + ttl * 5 / 6, client.simple_query("SELECT 1")).await {
                    Ok(Ok(_)) => (heard, next) = (sent, sent + ttl / 3),
                    // The end of the connection is reported as such.
                    Ok(Err(_)) => return,
                    Err(_) => {
                        silent.store(true, Ordering::Relaxed);
                        return held.lose("silent: the server did not answer for most of the TTL");
                    }
                }
            }
        })
    }

    /// The process holds this key: a notice reports the end of the connection. False if it has ended already.
    #[must_use]
    pub(super) fn hold(&self, key: &str) -> bool {
        self.held.hold(key);
        // In this order: what ends in between is seen here, or the notice says it.
        self.lives() || !self.held.let_go(key)
    }

    /// A statement under this lock failed. Gives whether the connection ended, and with it the lock.
    pub(super) fn ended_with(&self, key: &str, failed: &Failed) -> bool {
        let ended = matches!(failed, Failed::Unknown(why) if why.code() == ErrorCode::Disconnected);
        if ended && self.held.let_go(key) {
            self.notices.lost(key, "closed: a statement was answered with the end of the connection");
        }
        ended
    }
}

pub(super) async fn answer<T>(
    statement: impl Future<Output = Result<T, Error>>,
    deadline: Instant,
) -> Result<T, Failed> {
    match timeout_at(deadline, statement).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failed(&error)),
        Err(_) => Err(Failed::Unknown(ErrorCode::Timeout.error("PostgreSQL did not answer in time"))),
    }
}

fn failed(error: &Error) -> Failed {
    let by_server = error.as_db_error();
    classify(by_server.map(|error| (error.parsed_severity(), error.code())), &words(error))
}

/// How severe the server calls the error, and which it is, if it is the server's; and its words.
fn classify(by_server: Option<(Option<Severity>, &SqlState)>, words: &str) -> Failed {
    match by_server {
        // An ERROR ends the statement, and its effects are undone.
        Some((Some(Severity::Error), code)) => Failed::Refused {
            why: ErrorCode::Refused.error(words),
            lock_timeout: *code == SqlState::LOCK_NOT_AVAILABLE,
        },
        // FATAL and PANIC end the connection, even after a statement was carried out; or it broke.
        _ => Failed::Unknown(ErrorCode::Disconnected.error(words)),
    }
}

fn words(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_that_leaves_the_connection_says_that_a_statement_was_not_carried_out() {
        let refused = |lock_timeout| Failed::Refused { why: "refused: x".into(), lock_timeout };
        let unknown = || Failed::Unknown("disconnected: x".into());
        for (severity, code, expected) in [
            (Some(Severity::Error), SqlState::LOCK_NOT_AVAILABLE, refused(true)),
            (Some(Severity::Error), SqlState::QUERY_CANCELED, refused(false)),
            (Some(Severity::Error), SqlState::T_R_DEADLOCK_DETECTED, refused(false)),
            (Some(Severity::Error), SqlState::IN_FAILED_SQL_TRANSACTION, refused(false)),
            (Some(Severity::Fatal), SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, unknown()),
            (Some(Severity::Fatal), SqlState::ADMIN_SHUTDOWN, unknown()),
            (Some(Severity::Panic), SqlState::DISK_FULL, unknown()),
            (None, SqlState::LOCK_NOT_AVAILABLE, unknown()),
        ] {
            assert_eq!(classify(Some((severity, &code)), "x"), expected, "{severity:?} {code:?}");
        }
        assert_eq!(classify(None, "x"), unknown(), "the connection broke");
    }
}
