//! One process's lock on ZooKeeper: which session it uses, and what becomes of its znodes.

use super::attempt::{Attempt, ZnodeKind, leader};
use super::decisions::{
    AfterDelete, Turn, after_attempt, after_attempt_taken_back, after_delete, after_delete_taken_back,
    after_question, session_is_over,
};
use super::servers::ZkServers;
use super::session::ZkSession;
use crate::client::client_clock::millis_until;
use crate::held::{Held, never_acquired};
use crate::notices::Notices;
use crate::options::Options;
use crate::recipe::{Lock, Share};
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Grant, OperationError};
use fencepost_storage::Credentials;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Of an acquire's time-out, this part is kept for taking its znode back.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(500);
/// Of the session of a process that only asks who leads.
const ASKING: Duration = Duration::from_secs(10);

/// For whom a share of a lock waits.
pub(super) type Turns = fn(Option<Share>, &Options) -> Turn;

pub(super) struct ZkLock {
    servers: Arc<ZkServers>,
    kind: ZnodeKind,
    turn: Turns,
    options: Arc<Options>,
    is_shared: bool,
    notices: Notices,
    session: Option<ZkSession>,
    held: Held<ZnodeHold>,
    wakeups: AtomicU64,
}

struct ZnodeHold {
    path: String,
    czxid: i64,
    session: i64,
}

impl ZkLock {
    pub(super) fn new(servers: Arc<ZkServers>, kind: ZnodeKind, notices: Notices) -> ZkLock {
        ZkLock {
            servers,
            kind,
            turn: |_, _| Turn::Alone,
            options: Arc::default(),
            is_shared: false,
            notices,
            session: None,
            held: Held::default(),
            wakeups: AtomicU64::new(0),
        }
    }

    pub(super) fn shared(self, turn: Turns, options: Arc<Options>) -> ZkLock {
        ZkLock { turn, options, is_shared: true, ..self }
    }

    /// The connection of the session under which this key is held, while that lives.
    pub(super) fn client(&self, key: &str) -> Option<&zookeeper_client::Client> {
        self.session_of(self.held.find(key)?).map(|session| &session.client)
    }

    fn session_of(&self, hold: &ZnodeHold) -> Option<&ZkSession> {
        let session = self.session.as_ref()?;
        (session.client.session_id().0 == hold.session && session.lives()).then_some(session)
    }

    pub(super) fn grant(&self, key: &str) -> Grant {
        // Of a lock that several hold, grants need not come in the order of the queue.
        let czxid = self.held.find(key).filter(|_| !self.is_shared).map(|hold| hold.czxid);
        let until = self.session.as_ref().map(ZkSession::valid_until);
        let arrival = czxid.filter(|_| self.kind == ZnodeKind::Sequential).map(Into::into);
        let validity_ms = until.map(|until| millis_until(until).into());
        Grant { token: czxid, validity_ms, arrival, ..Grant::default() }
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
}

#[async_trait]
impl Lock for ZkLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        self.acquire_share(key, None, ttl, timeout).await
    }

    async fn acquire_share(
        &mut self,
        key: &str,
        share: Option<Share>,
        ttl: Duration,
        timeout: Duration,
    ) -> Completion {
        let turn = (self.turn)(share, &self.options);
        let deadline = Instant::now() + timeout;
        let try_until = deadline - (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        self.wakeups.store(0, Ordering::Relaxed);
        if self.session.as_ref().is_some_and(|session| session.held().contain(key)) {
            // Nothing is asked for: to take this attempt back would take back the held znode of this session.
            return Completion::fail(ErrorCode::Taken, "this process holds the lock already");
        }
        if let Err(why) = self.open_session(ttl, try_until).await {
            // No session, so no znode was even asked for.
            return Completion::Fail(why);
        }
        let Some(session) = &self.session else { unreachable!("a session was just opened") };
        let attempt =
            Attempt::new(&session.client, (self.kind, turn), key, &self.wakeups).of(self.notices.process());
        let ended = timeout_at(try_until, attempt.take()).await.ok();
        let taken = match after_attempt(ended, attempt.saw_others()) {
            Ok(taken) => taken,
            Err(why) => {
                let taken_back = timeout_at(deadline, attempt.take_back()).await.ok();
                let end = after_attempt_taken_back(taken_back, why);
                return end.close(&mut self.session);
            }
        };
        // The leader has carried out the creation, so it knew the session then.
        session.renewed_at(taken.created);
        session.hold(key);
        if self.wakeups.load(Ordering::Relaxed) > 0 {
            // The session was prolonged while the process waited; checkers count from the last report.
            session.report();
        }
        let session = session.client.session_id().0;
        self.held.remember(key, ZnodeHold { path: taken.path, czxid: taken.czxid, session });
        Completion::ok(self.grant(key))
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(hold) = self.held.take(key) else { return never_acquired() };
        let Some(session) = self.session_of(&hold) else { return session_is_over() };
        session.held().let_go(key);
        let deleted = timeout_at(deadline, session.client.delete(&hold.path, None)).await.ok();
        let end = match after_delete(deleted) {
            AfterDelete::End(end) => end,
            AfterDelete::TakeBack => {
                let attempt = Attempt::again(&session.client, self.kind, key, &hold.path, &self.wakeups);
                after_delete_taken_back(timeout_at(deadline, attempt.take_back()).await.ok())
            }
        };
        end.close(&mut self.session)
    }

    async fn leader(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let ttl = self.session.as_ref().map_or(ASKING, |session| session.ttl);
        if let Err(why) = self.open_session(ttl, deadline).await {
            return Completion::Fail(why);
        }
        let Some(session) = &self.session else { unreachable!("a session was just opened") };
        after_question(timeout_at(deadline, leader(&session.client, key)).await.ok())
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        let session = self.session.as_ref().filter(|session| session.held().contain(key));
        Some(session.is_some_and(|session| Instant::now() < session.valid_until()))
    }

    fn credentials(&self, key: &str) -> Credentials {
        let token = self.held.find(key).and_then(|hold| u64::try_from(hold.czxid).ok());
        Credentials { token, ..Credentials::default() }
    }

    fn wakeups(&self) -> Option<u64> {
        Some(self.wakeups.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::zookeeper::testing::{SESSION, silent_server};
    use crate::testing::ended;
    use tokio::sync::mpsc;

    /// The znode of the hold and that of the attempt are one: who takes back the attempt takes back the hold.
    #[tokio::test]
    async fn an_acquire_of_what_the_process_holds_leaves_the_hold_alone() {
        let (out, mut noticed) = mpsc::unbounded_channel();
        let notices = Notices::new(1, out, Arc::from([]));
        let mut lock = ZkLock::new(ZkServers::at(silent_server().await), ZnodeKind::Ephemeral, notices);
        let second = Duration::from_secs(1);
        lock.open_session(SESSION, Instant::now() + second).await.unwrap();
        let session = lock.session.as_ref().unwrap();
        session.hold("a");
        let hold = |session| ZnodeHold { path: "/fencepost/a/lock".to_owned(), czxid: 33, session };
        lock.held.remember("a", hold(session.client.session_id().0));
        let again = lock.acquire("a", SESSION, second).await;
        assert_eq!(ended(&again), "fail taken", "at once, although no server answers");
        assert!(lock.client("a").is_some() && noticed.try_recv().is_err(), "it is still held");

        // Held under a session that is gone, or not at all.
        lock.held.remember("a", hold(1));
        assert!(lock.client("a").is_none() && lock.client("b").is_none());
        assert_eq!(ended(&lock.release("a", second).await), "fail not-held");
        assert_eq!(ended(&lock.release("a", second).await), "fail not-held");
    }
}
