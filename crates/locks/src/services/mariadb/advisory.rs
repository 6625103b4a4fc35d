//! `mariadb-advisory`: a connection's lock. A holder pings, and gives up before the server can have let go.

use super::connection::MariadbConnection;
use super::decisions::{AfterGetLock, after_lock, after_unlock};
use super::server::MariaDbServer;
use super::service::MARIADB;
use super::statements::{KEEPALIVE, LOCK as GET_LOCK, UNLOCK, lock_name, set_keepalive};
use crate::attempts::wait_until;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::end::End;
use crate::held::HeldKeys;
use crate::notices::Notices;
use crate::options::{MariaDbReconnect, Options};
use crate::recipe::Lock;
use crate::sql::{Failed, SqlClient, SqlRecipe, after_probe, keepalive_probes};
use async_trait::async_trait;
use fencepost_cluster::OwnTask;
use fencepost_history::{Completion, ErrorCode, Grant, Lease, OperationError};
use mysql_async::prelude::Queryable;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout_at};

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "mariadb-advisory",
    about: "GET_LOCK: a lock that lives as long as the connection",
    claims: "exclusion while the holder's connection lives, ownership, progress; no fencing; one server, no availability",
    service: &MARIADB,
    recipe: &SqlRecipe::<MariaDbServer> {
        // Keepalives are counted in whole seconds: one of silence, and one to answer.
        ttl_min: Duration::from_secs(2),
        lock: |client, _process, notices| Box::new(NamedLock { client, notices, live: None }),
    },
    options: &["mariadb-reconnect"],
    capabilities: |options| Capabilities {
        lease: Lease::Connection,
        loss_notice: is_reported(options),
        ..Capabilities::NONE
    },
};

/// A holder pings after this part of the TTL, and waits as long: together less than the TTL.
const PING_SHARE: u32 = 8;
const ANSWER_SHARE: u32 = 2;

fn is_reported(options: &Options) -> bool {
    options.mariadb_reconnect == MariaDbReconnect::Reported
}

struct NamedLock {
    client: Arc<SqlClient<MariaDbServer>>,
    notices: Notices,
    live: Option<LiveConnection>,
}

struct LiveConnection {
    connection: Arc<Mutex<MariadbConnection>>,
    held: Arc<HeldKeys>,
    ttl: Duration,
    _pings: Option<OwnTask>,
}

impl LiveConnection {
    async fn connection(&self, deadline: Instant) -> Result<MutexGuard<'_, MariadbConnection>, Failed> {
        let free = timeout_at(deadline, self.connection.lock()).await;
        free.map_err(|_| Failed::Unknown(ErrorCode::Timeout.error("MariaDB does not answer a ping")))
    }

    async fn unlock(&self, key: &str, deadline: Instant) -> Result<Option<i64>, Failed> {
        let mut connection = self.connection(deadline).await?;
        let name = lock_name(key);
        connection
            .ask(deadline, async |conn| conn.exec_first(UNLOCK, (name,)).await)
            .await
            .map(Option::flatten)
    }
}

/// Pings while something is held, until the connection is over. What is held then is lost.
async fn ping(connection: Arc<Mutex<MariadbConnection>>, held: Arc<HeldKeys>, ttl: Duration) {
    loop {
        sleep(ttl / PING_SHARE).await;
        if held.is_empty() {
            continue;
        }
        let answer = connection.lock().await.ping(Instant::now() + ttl / ANSWER_SHARE).await;
        if let Err(failed) = answer {
            held.lose(&format!("closed: {}", failed.why().detail()));
            return;
        }
    }
}

impl NamedLock {
    async fn connect(&mut self, ttl: Duration, deadline: Instant) -> Result<&LiveConnection, OperationError> {
        let answers = match self.live.as_ref().filter(|live| live.ttl == ttl) {
            None => false,
            Some(live) => match live.connection(deadline).await {
                Ok(mut connection) => connection.ping(deadline).await.is_ok(),
                Err(_) => false,
            },
        };
        if !answers {
            self.live = None;
            let connection = self.open(ttl, deadline).await?;
            self.live = Some(self.live(connection, ttl));
        }
        self.live.as_ref().ok_or_else(|| ErrorCode::Unreachable.error("no connection to MariaDB"))
    }

    /// Opens a connection with keepalives for the TTL: a setting of the server, which connections keep.
    async fn open(&self, ttl: Duration, deadline: Instant) -> Result<MariadbConnection, OperationError> {
        let wanted = (1, 1, keepalive_probes(ttl));
        let mut connection = MariadbConnection::open(&self.client.server, deadline).await?;
        let found = connection.ask(deadline, async |conn| conn.query_first(KEEPALIVE).await).await;
        if found.map_err(Failed::why)? != Some(wanted) {
            let set = connection.ask(deadline, async |conn| conn.query_drop(set_keepalive(wanted)).await);
            set.await.map_err(Failed::why)?;
            connection = MariadbConnection::open(&self.client.server, deadline).await?;
        }
        Ok(connection)
    }

    fn live(&self, connection: MariadbConnection, ttl: Duration) -> LiveConnection {
        let connection = Arc::new(Mutex::new(connection));
        let held = Arc::new(HeldKeys::new(self.notices.clone()));
        let pings = is_reported(&self.client.options)
            .then(|| OwnTask::spawn(ping(connection.clone(), held.clone(), ttl)));
        LiveConnection { connection, held, ttl, _pings: pings }
    }
}

async fn lock(live: &LiveConnection, key: &str, until: Instant, deadline: Instant) -> Result<(), End> {
    let mut connection = live.connection(deadline).await.map_err(|failed| End::unknown(failed.why()))?;
    let (name, asked) = (lock_name(key), Instant::now());
    let patience = until.saturating_duration_since(asked).as_secs_f64();
    let reply =
        connection.ask(deadline, async |conn| conn.exec_first(GET_LOCK, (name, patience)).await).await;
    match after_lock(reply.map(Option::flatten)) {
        AfterGetLock::End(end) => Err(end),
        // An answer that came late may be older than the end of its connection.
        AfterGetLock::Granted if asked.elapsed() > live.ttl => after_probe(connection.ping(deadline).await),
        AfterGetLock::Granted => Ok(()),
    }
}

#[async_trait]
impl Lock for NamedLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let begun = Instant::now();
        let deadline = begun + timeout;
        let live = match self.connect(ttl, deadline).await {
            Ok(live) => live,
            // Without a connection nothing was asked for.
            Err(why) => return Completion::Fail(why),
        };
        match lock(live, key, begun + wait_until(timeout), deadline).await {
            Ok(()) => {
                live.held.hold(key);
                Completion::ok(Grant::default())
            }
            Err(end) => end.close(&mut self.live),
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(live) = self.live.as_ref().filter(|live| live.held.let_go(key)) else {
            // The lock was never granted, or went with its connection: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "no connection holds the lock");
        };
        let ttl = live.ttl;
        let mut unlocked = live.unlock(key, deadline).await;
        let is_over = matches!(&unlocked, Err(Failed::Unknown(why)) if why.code() == ErrorCode::Disconnected);
        if is_over && !is_reported(&self.client.options) {
            // Automatic reconnection: the statement is sent again on the new connection, without a word.
            unlocked = match self.connect(ttl, deadline).await {
                Ok(live) => live.unlock(key, deadline).await,
                Err(why) => Err(Failed::Unknown(why)),
            };
        }
        after_unlock(unlocked).close(&mut self.live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_gives_up_before_the_server_lets_go() {
        let ttl = Duration::from_secs(2);
        assert!(ttl / PING_SHARE + ttl / ANSWER_SHARE < ttl);
    }

    #[test]
    fn a_silent_reconnection_reports_no_loss() {
        let reports = |mariadb_reconnect| {
            LOCK.capabilities(&Options { mariadb_reconnect, ..Options::default() }).loss_notice
        };
        assert!(reports(MariaDbReconnect::Reported) && !reports(MariaDbReconnect::Silent));
    }
}
