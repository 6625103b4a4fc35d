//! `postgres-row`: a transaction that locks the counter's row, and writes it.

use super::connection::{Connection, answer};
use super::decisions::{
    AfterLock, after_commit, after_commit_of_write, after_lock, after_rollback, after_update,
    ended_with_grant, read,
};
use super::server::PostgresServer;
use super::service::POSTGRES;
use crate::attempts::wait_until;
use crate::capabilities::Capabilities;
use crate::client::client_clock::millis_until;
use crate::definition::LockDefinition;
use crate::notices::Notices;
use crate::recipe::Lock;
use crate::sql::{Failed, SqlRecipe, after_probe};
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Grant, OperationError};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) const INSERT: &str = "INSERT INTO protected (key) VALUES ($1) ON CONFLICT DO NOTHING";

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "postgres-row",
    about: "SELECT … FOR UPDATE: the row lock and the data in one transaction, which commits the write and ends the lock",
    claims: "exclusion, ownership, progress, no lost update: a holder that is too late cannot commit; one server, no availability",
    service: &POSTGRES,
    recipe: &SqlRecipe::<PostgresServer> {
        // The server counts milliseconds; but a statement must find the time to be answered.
        ttl_min: Duration::from_millis(100),
        lock: |client, _, notices| Box::new(RowLock::new(client.server.clone(), notices)),
    },
    options: &[],
    capabilities: |_| Capabilities {
        own_storage: true,
        validity: true,
        loss_notice: true,
        renewal: true,
        ..Capabilities::NONE
    },
};

struct RowLock {
    server: Arc<PostgresServer>,
    notices: Notices,
    connection: Option<Connection>,
    ttl: Duration,
    /// The transaction that is open: its key, and when its last statement that was answered was sent.
    open: Option<(String, Instant)>,
}

impl RowLock {
    fn new(server: Arc<PostgresServer>, notices: Notices) -> RowLock {
        RowLock { server, notices, connection: None, ttl: Duration::ZERO, open: None }
    }

    async fn connect(&mut self, ttl: Duration, deadline: Instant) -> Result<&Connection, OperationError> {
        if self.open.take().is_some() {
            self.connection = None;
        }
        self.ttl = ttl;
        // The server ends a transaction in which nothing happened for that long, and its connection with it.
        let settings = format!("-c idle_in_transaction_session_timeout={}", ttl.as_millis());
        Connection::current(&mut self.connection, &self.server, &settings, &self.notices, deadline).await
    }

    async fn lock_row(
        connection: &Connection,
        key: &str,
        until: Instant,
        deadline: Instant,
    ) -> Result<(), Failed> {
        let client = &connection.client;
        answer(client.execute(INSERT, &[&key]), deadline).await?;
        let begin = format!("BEGIN; SET LOCAL lock_timeout = {}", millis_until(until).max(1));
        answer(client.batch_execute(&begin), deadline).await?;
        let lock = "SELECT value FROM protected WHERE key = $1 FOR UPDATE";
        answer(client.query_one(lock, &[&key]), deadline).await.map(drop)
    }
}

#[async_trait]
impl Lock for RowLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let begun = Instant::now();
        let deadline = begun + timeout;
        let connection = match self.connect(ttl, deadline).await {
            Ok(connection) => connection,
            // Without a connection no row was asked for.
            Err(why) => return Completion::Fail(why),
        };
        let locked = Self::lock_row(connection, key, begun + wait_until(timeout), deadline).await;
        let end = match after_lock(locked) {
            AfterLock::Granted => {
                // An answer older than the TTL may be of a transaction that the server has ended.
                if Instant::now() >= begun + ttl {
                    let probed = answer(connection.client.batch_execute("SELECT 1"), deadline).await;
                    if let Err(end) = after_probe(probed) {
                        return end.close(&mut self.connection);
                    }
                }
                // The server counts from when it answered, which is now or a little earlier.
                let now = Instant::now();
                if connection.hold(key) {
                    self.open = Some((key.to_owned(), now));
                    // The certain part of it: from when the acquire began.
                    let validity_ms = Some(millis_until(begun + ttl).into());
                    return Completion::ok(Grant { validity_ms, ..Grant::default() });
                }
                ended_with_grant()
            }
            AfterLock::TakeBack(why) => {
                after_rollback(answer(connection.client.batch_execute("ROLLBACK"), deadline).await, why)
            }
            AfterLock::End(end) => end,
        };
        end.close(&mut self.connection)
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        if self.open.take_if(|(open, _)| open == key).is_none() {
            // A write has ended the transaction, or there was none: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "no transaction holds the lock any more");
        }
        let Some(connection) = &self.connection else { unreachable!("a transaction has a connection") };
        if !connection.held.let_go(key) {
            // The connection has ended, and the lock with it. Nothing is sent.
            self.connection = None;
            return Completion::fail(ErrorCode::NotHeld, "the connection is over, and the lock went with it");
        }
        let end = after_commit(answer(connection.client.batch_execute("COMMIT"), deadline).await);
        end.close(&mut self.connection)
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        let open = self.open.as_ref().filter(|(open, _)| open == key);
        let lives = self.connection.as_ref().is_some_and(|connection| connection.held.contain(key));
        Some(lives && open.is_some_and(|(_, since)| Instant::now() < *since + self.ttl))
    }

    async fn read(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        if self.connection.as_ref().is_none_or(|connection| !connection.lives())
            && let Err(why) = self.connect(self.ttl, deadline).await
        {
            return Completion::Fail(why);
        }
        let Some(connection) = &self.connection else { unreachable!("just connected") };
        let sent = Instant::now();
        // A read changes nothing: one that was not answered has not happened, for all that anybody can see.
        let select = "SELECT value FROM protected WHERE key = $1";
        match answer(connection.client.query_opt(select, &[&key]), deadline).await {
            Ok(row) => {
                if self.open.as_ref().is_some_and(|(open, _)| open == key) {
                    // The server counts its TTL from the last statement.
                    self.open = Some((key.to_owned(), Instant::now()));
                    self.notices.renewed(key, sent.elapsed());
                }
                row.map_or(Completion::ok(0), |row| read(row.get(0)))
            }
            Err(failed) => {
                if connection.ended_with(key, &failed) {
                    (self.connection, self.open) = (None, None);
                }
                Completion::Fail(failed.why())
            }
        }
    }

    async fn write(&mut self, key: &str, value: &Value, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        if self.open.take_if(|(open, _)| open == key).is_none() {
            // There is no transaction that could write it: nothing is sent.
            return Completion::fail(ErrorCode::NotHeld, "no transaction holds the lock");
        }
        let Some(connection) = &self.connection else { unreachable!("a transaction has a connection") };
        if !connection.held.let_go(key) {
            // The transaction ended with its connection, and everything in it was undone.
            self.connection = None;
            return Completion::fail(
                ErrorCode::NotHeld,
                "the connection is over, and the transaction with it",
            );
        }
        let update = "UPDATE protected SET value = $2 WHERE key = $1";
        let updated = answer(connection.client.execute(update, &[&key, &value.to_string()]), deadline).await;
        let end = match after_update(updated) {
            Ok(()) => {
                let committed = answer(connection.client.batch_execute("COMMIT"), deadline).await;
                after_commit_of_write(committed, value)
            }
            Err(end) => end,
        };
        end.close(&mut self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    /// A server that lets a client in and answers its first statement with the end of the connection, which
    /// it leaves open.
    async fn ending_server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut sent = [0; 1024];
            let _ = stream.read(&mut sent).await.unwrap();
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.unwrap();
            let _ = stream.read(&mut sent).await.unwrap();
            let fields =
                b"SFATAL\0VFATAL\0C25P03\0Mterminating connection due to idle-in-transaction timeout\0\0";
            let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
            stream.write_all(&[b"E", &length[..], fields].concat()).await.unwrap();
            std::future::pending::<()>().await;
        });
        address
    }

    #[tokio::test]
    async fn a_process_knows_by_the_answer_to_a_statement_that_its_transaction_is_over() {
        let (out, mut noticed) = mpsc::unbounded_channel();
        let mut lock =
            RowLock::new(PostgresServer::at(&ending_server().await), Notices::new(1, out, Arc::from([])));
        let second = Duration::from_secs(1);
        lock.connect(second, Instant::now() + second).await.unwrap();
        assert!(lock.connection.as_ref().unwrap().hold("k0"));
        lock.open = Some(("k0".to_owned(), Instant::now()));
        let read = lock.read("k0", second).await;
        let Completion::Fail(error) = read else { panic!("a read that failed, not {read:?}") };
        assert!(error.to_string().contains("idle-in-transaction timeout"), "{error}");
        let notice = noticed.try_recv().expect("a notice before the answer");
        assert_eq!((notice.event.as_str(), notice.key.as_str()), ("lost", "k0"));
        let released = lock.release("k0", second).await;
        assert!(
            matches!(&released, Completion::Fail(error) if error.code() == ErrorCode::NotHeld),
            "{released:?}"
        );
        assert!(noticed.try_recv().is_err(), "it is said once");
    }
}
