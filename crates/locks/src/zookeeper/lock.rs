//! One process's lock on ZooKeeper: which session it uses, and what becomes of its znodes.

use super::attempt::{Attempt, ZnodeGrant, ZnodeKind};
use super::session::ZkSession;
use crate::client_clock::millis_until;
use crate::notices::Notices;
use crate::recipe::Lock;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, OperationError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::Error;

/// Of an acquire's time-out, this part is kept for taking its znode back.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(500);

pub(super) struct ZkLock {
    servers: Arc<str>,
    kind: ZnodeKind,
    notices: Notices,
    session: Option<ZkSession>,
    held: Vec<ZnodeHold>,
    wakeups: AtomicU64,
}

struct ZnodeHold {
    key: String,
    path: String,
    czxid: i64,
    session: i64,
}

impl ZkLock {
    pub(super) fn new(servers: Arc<str>, kind: ZnodeKind, notices: Notices) -> ZkLock {
        ZkLock { servers, kind, notices, session: None, held: Vec::new(), wakeups: AtomicU64::new(0) }
    }

    /// The connection of its session, while that lives.
    pub(super) fn client(&self) -> Option<zookeeper_client::Client> {
        let session = self.session.as_ref().filter(|session| session.lives())?;
        Some(session.client.clone())
    }

    /// The session, a new one where there is none that lives with this TTL.
    async fn open_session(&mut self, ttl: Duration, deadline: Instant) -> Result<(), OperationError> {
        if self.session.as_ref().is_some_and(|session| session.ttl == ttl && session.lives()) {
            return Ok(());
        }
        self.session = None;
        self.session = Some(ZkSession::open(&self.servers, ttl, self.notices.clone(), deadline).await?);
        Ok(())
    }

    fn granted(&mut self, key: &str, taken: ZnodeGrant) -> Completion {
        let Some(session) = &self.session else { unreachable!("the lock was taken under a session") };
        let ZnodeGrant { path, czxid, created } = taken;
        // The leader has carried out the creation, so it knew the session then.
        session.renewed_at(created);
        session.hold(key);
        if self.wakeups.load(Ordering::Relaxed) > 0 {
            // The session was prolonged while the process waited; checkers count from the last report.
            session.report(key);
        }
        self.held.retain(|held| held.key != key);
        self.held.push(ZnodeHold {
            key: key.to_owned(),
            path,
            czxid,
            session: session.client.session_id().0,
        });
        let mut value = json!({"token": czxid, "validity_ms": millis_until(session.valid_until())});
        if self.kind == ZnodeKind::Sequential {
            // Its znode's place in the queue.
            value["arrival"] = czxid.into();
        }
        Completion::Ok(value)
    }
}

#[async_trait]
impl Lock for ZkLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let try_until = deadline - (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        self.wakeups.store(0, Ordering::Relaxed);
        if let Err(why) = self.open_session(ttl, try_until).await {
            // No session, so no znode was even asked for.
            return Completion::Fail(why);
        }
        let Some(session) = &self.session else { unreachable!("a session was just opened") };
        let attempt = Attempt::new(&session.client, self.kind, key, &self.wakeups);
        let why = match timeout_at(try_until, attempt.take()).await {
            Ok(Ok(taken)) => {
                return self.granted(key, taken);
            }
            Ok(Err(error)) => sentence(&error),
            Err(_) => ErrorCode::Taken.error("another client holds the lock"),
        };
        // Requests of a session are carried out in order, so what was asked for and not waited for comes before this.
        match timeout_at(deadline, attempt.take_back()).await {
            Ok(Ok(())) => Completion::Fail(why),
            // The znode may be there, or may come yet, until the servers end the session: unknown. A session that
            // this client holds for expired may still live, where the servers had no leader to end it.
            _ => {
                self.session = None;
                Completion::Info(why)
            }
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(place) = self.held.iter().position(|held| held.key == key) else {
            // This process was never granted it, or gave it back: there is nothing to send.
            return Completion::fail(ErrorCode::NotHeld, "this process has not acquired the lock");
        };
        let held = self.held.swap_remove(place);
        let session = self.session.as_ref();
        let Some(session) = session.filter(|it| it.client.session_id().0 == held.session && it.lives())
        else {
            // Nothing is sent. The znode went with its session.
            return Completion::fail(ErrorCode::NotHeld, "the session is over, and the lock went with it");
        };
        session.let_go(key);
        let ended = match timeout_at(deadline, session.client.delete(&held.path, None)).await {
            Ok(Ok(())) => return Completion::Ok(Value::Null),
            // Carried out, and found nothing. While its session lives no other client removes the znode.
            Ok(Err(Error::NoNode)) => {
                return Completion::fail(ErrorCode::NotHeld, "the lock was no longer this process's");
            }
            // A session that is over owns no znode, and the servers carry out nothing for it.
            Ok(Err(Error::SessionExpired)) => {
                return Completion::fail(
                    ErrorCode::NotHeld,
                    "the session is over, and the lock went with it",
                );
            }
            Ok(Err(Error::ConnectionLoss)) => {
                let attempt = Attempt::again(&session.client, self.kind, key, &held.path, &self.wakeups);
                timeout_at(deadline, attempt.take_back()).await
            }
            Ok(Err(error)) => Ok(Err(error)),
            Err(elapsed) => Err(elapsed),
        };
        match ended {
            // Only this client removes it while the session lives: one of the attempts did.
            Ok(Ok(())) => Completion::Ok(Value::Null),
            // A write without an answer. The session is dropped, so that the znode does not outlive its time-out.
            Ok(Err(error)) => {
                self.session = None;
                Completion::Info(sentence(&error))
            }
            Err(_) => {
                self.session = None;
                Completion::info(ErrorCode::Timeout, "ZooKeeper did not answer in time")
            }
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        let session = self.session.as_ref().filter(|session| session.holds(key));
        Some(session.is_some_and(|session| Instant::now() < session.valid_until()))
    }

    fn token(&self, key: &str) -> Option<u64> {
        let held = self.held.iter().find(|held| held.key == key)?;
        u64::try_from(held.czxid).ok()
    }

    fn wakeups(&self) -> Option<u64> {
        Some(self.wakeups.load(Ordering::Relaxed))
    }
}

fn sentence(error: &Error) -> OperationError {
    match error {
        Error::SessionExpired => {
            ErrorCode::SessionExpired.error("the session was over before the answer came")
        }
        Error::ConnectionLoss => ErrorCode::Disconnected.error("the connection to ZooKeeper broke"),
        error => ErrorCode::Refused.error(format_args!("{error}")),
    }
}
