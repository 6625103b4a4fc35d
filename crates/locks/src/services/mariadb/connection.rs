//! One process's connection to the server, and how its statements fail.

use super::server::{MariaDbServer, words};
use crate::sql::{self, Failed};
use fencepost_history::{ErrorCode, OperationError};
use mysql_async::{Conn, Error};
use tokio::time::{Instant, timeout_at};

/// A connection. Dropping it closes it, as the end of a program would; the server then ends its locks.
pub(super) struct MariadbConnection {
    conn: Option<Conn>,
    /// Whether it can be used, as far as this end knows: nothing reads while there is no statement.
    lives: bool,
}

impl MariadbConnection {
    pub(super) async fn open(
        server: &MariaDbServer,
        deadline: Instant,
    ) -> Result<MariadbConnection, OperationError> {
        Ok(MariadbConnection { conn: Some(sql::connect(server, "", deadline).await?), lives: true })
    }

    /// Sends a statement, and waits for its answer. Without an answer the connection is not used again.
    pub(super) async fn ask<T>(
        &mut self,
        deadline: Instant,
        statement: impl AsyncFnOnce(&mut Conn) -> Result<T, Error>,
    ) -> Result<T, Failed> {
        let Some(conn) = self.conn.as_mut().filter(|_| self.lives) else {
            return Err(Failed::Unknown(ErrorCode::Disconnected.error("the connection is over")));
        };
        let answer = match timeout_at(deadline, statement(conn)).await {
            Ok(answer) => answer.map_err(|error| classify(code(&error), &words(&error))),
            Err(_) => Err(Failed::Unknown(ErrorCode::Timeout.error("MariaDB did not answer in time"))),
        };
        self.lives = !matches!(answer, Err(Failed::Unknown(_)));
        answer
    }

    pub(super) async fn ping(&mut self, deadline: Instant) -> Result<(), Failed> {
        self.ask(deadline, async |conn| mysql_async::prelude::Queryable::ping(conn).await).await
    }
}

impl Drop for MariadbConnection {
    /// Outside of the runtime the library closes at once; in it, it first waits for given-up statements.
    fn drop(&mut self) {
        let conn = self.conn.take();
        let _ = std::thread::Builder::new().name("close".to_owned()).spawn(move || drop(conn));
    }
}

/// Errors that leave a statement in doubt or end the connection (MariaDB, "Error Codes"): shutdown (1053),
/// connection ended (1152, 1184, 1927), network (1158 to 1161), commit failed (1180), client silent (4031).
const ENDS: [u16; 10] = [1053, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1927, 4031];

/// What an error says of its statement: its number, where it is the server's, and its words.
fn classify(by_server: Option<u16>, words: &str) -> Failed {
    match by_server {
        Some(code) if !ENDS.contains(&code) => Failed::refused(words),
        _ => Failed::Unknown(ErrorCode::Disconnected.error(words)),
    }
}

fn code(error: &Error) -> Option<u16> {
    match error {
        Error::Server(by_server) => Some(by_server.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_an_error_that_leaves_the_connection_says_that_a_statement_was_not_carried_out() {
        let refused = || Failed::refused("x");
        let unknown = || Failed::Unknown("disconnected: x".into());
        for (code, expected) in [
            // A wait for a row that took too long, a deadlock, a full disk, a statement that was killed.
            (Some(1205), refused()),
            (Some(1213), refused()),
            (Some(1021), refused()),
            (Some(1317), refused()),
            (Some(1053), unknown()),
            (Some(1180), unknown()),
            (Some(1927), unknown()),
            (None, unknown()),
        ] {
            assert_eq!(classify(code, "x"), expected, "{code:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unreachable() {
        let server = MariaDbServer::at("127.0.0.1:9");
        let deadline = Instant::now() + Duration::from_secs(5);
        let failed = MariadbConnection::open(&server, deadline).await.err().expect("no connection");
        let sentence = "unreachable: no connection to MariaDB: Connection refused (os error 111)";
        assert_eq!(failed.to_string(), sentence);
    }
}
