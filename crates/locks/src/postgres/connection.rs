//! One process's connection to the server, and what becomes of its locks when it ends.

use super::service::USER;
use crate::notices::Notices;
use fencepost_history::{ErrorCode, OperationError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{Client, Config, Error, NoTls};

/// A connection. Dropping it closes it, as the end of a program would; the server then ends its transaction and locks.
pub(super) struct Connection {
    pub(super) client: Client,
    held: Arc<Mutex<Vec<String>>>,
    notices: Notices,
}

impl Connection {
    /// Connects. `settings` are the server's, for this connection only (`-c lock_timeout=5s`).
    pub(super) async fn open(
        address: &str,
        settings: &str,
        notices: Notices,
        deadline: Instant,
    ) -> Result<Connection, OperationError> {
        let (host, port) = address.rsplit_once(':').ok_or("bad-address: the server has no port")?;
        let mut config = Config::new();
        config.host(host).port(port.parse().map_err(|_| "bad-address: the server's port is no number")?);
        config.user(USER).dbname("postgres").application_name("fencepost").options(settings);
        let (client, driver) = match timeout_at(deadline, config.connect(NoTls)).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => {
                return Err(
                    ErrorCode::Unreachable.error(format_args!("no connection to PostgreSQL: {error}"))
                );
            }
            Err(_) => return Err(ErrorCode::Timeout.error("PostgreSQL did not take the connection in time")),
        };
        let held = Arc::<Mutex<Vec<String>>>::default();
        let (holds, of_end) = (held.clone(), notices.clone());
        tokio::spawn(async move {
            let reason = match driver.await {
                Ok(()) => "closed: the connection is over".to_owned(),
                Err(error) => format!("closed: {}", words(&error)),
            };
            for key in holds.lock().drain(..) {
                of_end.lost(&key, reason.clone());
            }
        });
        Ok(Connection { client, held, notices })
    }

    /// Whether it can be used, as far as this end knows.
    pub(super) fn lives(&self) -> bool {
        !self.client.is_closed()
    }

    /// The process holds this key from now on: a notice is sent when the connection ends. False where it has ended already, and the
    /// lock with it.
    #[must_use]
    pub(super) fn hold(&self, key: &str) -> bool {
        self.held.lock().push(key.to_owned());
        // In this order: what ends in between is seen here, or the notice says it.
        self.lives() || !self.let_go(key)
    }

    /// The process no longer holds this key. False where it did not.
    pub(super) fn let_go(&self, key: &str) -> bool {
        let mut held = self.held.lock();
        let place = held.iter().position(|other| other == key);
        place.is_some_and(|place| held.swap_remove(place) == key)
    }

    /// A statement of the transaction that holds this key failed. Where the connection ended with it, the process knows by that that the
    /// lock is gone, and not only when the connection is closed, too. Gives whether it ended.
    pub(super) fn ended_with(&self, key: &str, failed: &Failed) -> bool {
        let ended = matches!(failed, Failed::Unknown(why) if why.code() == ErrorCode::Disconnected);
        if ended && self.let_go(key) {
            self.notices.lost(key, "closed: a statement was answered with the end of the connection");
        }
        ended
    }

    pub(super) fn holds(&self, key: &str) -> bool {
        self.held.lock().iter().any(|held| held == key)
    }
}

/// How a statement failed.
pub(super) enum Failed {
    /// The server refused it: it was not carried out.
    Refused { why: OperationError, lock_timeout: bool },
    /// The connection broke, or the answer did not come in time: it may have been carried out.
    Unknown(OperationError),
}

impl Failed {
    pub(super) fn why(self) -> OperationError {
        match self {
            Failed::Refused { why, .. } | Failed::Unknown(why) => why,
        }
    }
}

/// Waits for a statement's answer.
pub(super) async fn answer<T>(
    statement: impl Future<Output = Result<T, Error>>,
    deadline: Instant,
) -> Result<T, Failed> {
    match timeout_at(deadline, statement).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(classify(&error)),
        Err(_) => Err(Failed::Unknown(ErrorCode::Timeout.error("PostgreSQL did not answer in time"))),
    }
}

fn classify(error: &Error) -> Failed {
    // An ERROR ends the statement, and its effects are undone. FATAL and PANIC end the connection, perhaps behind the
    // back of a statement that was carried out.
    match error.as_db_error() {
        Some(error) if error.parsed_severity() == Some(Severity::Error) => Failed::Refused {
            why: ErrorCode::Refused.error(format_args!("{}", error.message())),
            lock_timeout: *error.code() == SqlState::LOCK_NOT_AVAILABLE,
        },
        _ => Failed::Unknown(ErrorCode::Disconnected.error(format_args!("{}", words(error)))),
    }
}

fn words(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

/// Of an acquire's time-out, this part is the answer's: the server gives up waiting before it.
pub(super) fn wait_until(timeout: Duration) -> Duration {
    timeout - (timeout / 4).min(Duration::from_millis(250))
}
