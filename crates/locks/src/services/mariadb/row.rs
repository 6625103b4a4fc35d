//! `mariadb-row`: a row with a lease and a fencing token.

use super::connection::MariadbConnection;
use super::decisions::{AfterTake, after_give_back, after_take};
use super::server::MariaDbServer;
use super::service::MARIADB;
use super::statements::{RELEASE_ROW, lock_name, take_row};
use crate::attempts::{Attempts, wait_until};
use crate::capabilities::Capabilities;
use crate::client::client_clock::{ClientClock, Reading};
use crate::definition::LockDefinition;
use crate::end::End;
use crate::held::{Held, never_acquired};
use crate::options::MariaDbExpiry;
use crate::recipe::Lock;
use crate::sql::{SqlClient, SqlRecipe};
use async_trait::async_trait;
use fencepost_history::{Completion, Grant, OperationError};
use fencepost_storage::Credentials;
use mysql_async::prelude::Queryable;
use mysql_async::{Params, Value, params};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "mariadb-row",
    about: "a row with a lease by the server's clock, taken in one statement, with a fencing token",
    claims: "exclusion while the server keeps its clock and holders stop within the TTL; ownership; progress; fencing; one server, no availability",
    service: &MARIADB,
    recipe: &SqlRecipe::<MariaDbServer> {
        ttl_min: Duration::ZERO,
        lock: |client, process, notices| {
            // Nothing is renewed, and a lease that ends is known by the client's own clock.
            drop(notices);
            Box::new(MariadbRowLock::new(client, process))
        },
    },
    options: &["mariadb-expiry"],
    capabilities: |_| Capabilities { token: true, unique_value: true, validity: true, ..Capabilities::NONE },
};

const CLOCK: ClientClock = ClientClock::Monotonic;

struct MariadbRowLock {
    client: Arc<SqlClient<MariaDbServer>>,
    attempts: Attempts,
    connection: Option<MariadbConnection>,
    held: Held<RowHold>,
}

struct RowHold {
    /// The row's holder while it is this process's: no other grant has it.
    holder: String,
    token: i64,
    /// By this process's own clock the lease runs until then.
    valid_until: Reading,
}

impl MariadbRowLock {
    fn new(client: Arc<SqlClient<MariaDbServer>>, process: u64) -> MariadbRowLock {
        let attempts = Attempts::new(&client.name, process, client.seed);
        MariadbRowLock { client, attempts, connection: None, held: Held::default() }
    }

    async fn connect(&mut self, deadline: Instant) -> Result<(), OperationError> {
        if let Some(connection) = &mut self.connection
            && connection.ping(deadline).await.is_ok()
        {
            return Ok(());
        }
        self.connection = None;
        self.connection = Some(MariadbConnection::open(&self.client.server, deadline).await?);
        Ok(())
    }

    async fn take(&mut self, key: &str, holder: &str, ttl: Duration, deadline: Instant) -> AfterTake {
        if let Err(why) = self.connect(deadline).await {
            // Without a connection nothing was asked for.
            return AfterTake::End(End::keeping(Completion::Fail(why)));
        }
        let Some(connection) = &mut self.connection else { unreachable!("just connected") };
        let expiry = self.client.options.mariadb_expiry;
        let mut values: Vec<(&str, Value)> = vec![
            ("name", lock_name(key).into()),
            ("holder", holder.into()),
            ("ttl", (ttl.as_micros() as u64).into()),
        ];
        if expiry == MariaDbExpiry::Client {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            values.push(("now", (now.as_micros() as u64).into()));
        }
        let (statement, values) = (take_row(expiry), Params::from(values));
        let reply = connection.ask(deadline, async |conn| conn.exec_first(statement, values).await).await;
        after_take(reply, holder)
    }
}

#[async_trait]
impl Lock for MariadbRowLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let (deadline, try_until) = (Instant::now() + timeout, Instant::now() + wait_until(timeout));
        loop {
            let holder = self.attempts.begin();
            let valid_until = CLOCK.now() + ttl;
            let why_not = match self.take(key, &holder, ttl, deadline).await {
                AfterTake::Granted(token) => {
                    self.held.remember(key, RowHold { holder, token, valid_until });
                    let validity_ms = Some(CLOCK.millis_until(valid_until).into());
                    return Completion::ok(Grant { token: Some(token), validity_ms, ..Grant::default() });
                }
                AfterTake::TryAgain(why) => why,
                AfterTake::End(end) => return end.close(&mut self.connection),
            };
            if !self.attempts.rest(ttl, try_until).await {
                // Each attempt was answered: nothing is left of it.
                return Completion::Fail(why_not);
            }
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(RowHold { holder, token, .. }) = self.held.take(key) else { return never_acquired() };
        if let Err(why) = self.connect(deadline).await {
            // Nothing was sent: the row is this process's until its lease is over.
            return Completion::Fail(why);
        }
        let Some(connection) = &mut self.connection else { unreachable!("just connected") };
        let values = params! { "name" => lock_name(key), "holder" => holder, "token" => token };
        let reply = connection
            .ask(deadline, async |conn| {
                conn.exec_drop(RELEASE_ROW, values).await?;
                Ok(conn.affected_rows())
            })
            .await;
        after_give_back(reply).close(&mut self.connection)
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.find(key).is_some_and(|hold| CLOCK.is_before(hold.valid_until)))
    }

    fn credentials(&self, key: &str) -> Credentials {
        let Some(hold) = self.held.find(key) else { return Credentials::default() };
        let (token, unique) = (u64::try_from(hold.token).ok(), Some(hold.holder.clone()));
        Credentials { token, unique, ..Credentials::default() }
    }
}
