//! What one process has on etcd, whatever its recipe: a session, and how it ends.

use super::api::{Compare, LeaseRevokeRequest, RequestOp, TxnRequest};
use super::decisions::{Attempted, after_release, after_release_by_end, after_unclear, is_ended};
use super::members::{CallError, Members};
use super::sequencers::sequencer;
use super::session::LeaseSession;
use crate::client::client_clock::millis_until;
use crate::end::End;
use crate::held::{Held, never_acquired};
use crate::notices::Notices;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Grant, Mode, Stream};
use fencepost_storage::Credentials;
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Of an acquire's time-out, this part is kept for taking back what it did.
const CLEANUP_SHARE: u32 = 4;
const CLEANUP_MAX: Duration = Duration::from_millis(500);
const RETRY_DELAY_US: std::ops::RangeInclusive<u64> = 5_000..=20_000;

pub(crate) struct User {
    pub(super) members: Arc<Members>,
    notices: Notices,
    random: Stream,
    session: Option<LeaseSession>,
    held: Held<LeasedHold>,
}

/// What a process holds under a session.
pub(super) struct LeasedHold {
    pub(super) lease: i64,
    /// Its keys in etcd, of which the first has this create revision.
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) revision: i64,
    pub(super) mode: Mode,
    /// An attempt to create the keys was not answered, and may still create them after they were deleted.
    pub(super) doubt: bool,
    pub(super) wakeups: Option<u64>,
    /// The lease was prolonged while the process waited, or was not (then the report is old).
    pub(super) reports: bool,
}

#[derive(Clone, Copy)]
pub(super) struct LeaseTimes {
    pub(super) ttl: Duration,
    pub(super) companion: Option<Duration>,
}

#[async_trait]
pub(super) trait Attempt: Sync {
    fn aborts_on_lease_loss(&self) -> bool {
        true
    }
    /// Tries until `until`; what it takes back itself, it may take back until `deadline`.
    async fn attempt(
        &self,
        members: &Members,
        session: &LeaseSession,
        until: Instant,
        deadline: Instant,
    ) -> Attempted<LeasedHold>;
}

impl User {
    pub(super) fn new(members: Arc<Members>, notices: Notices, random: Stream) -> User {
        User { members, notices, random, session: None, held: Held::default() }
    }

    pub(super) fn process(&self) -> u64 {
        self.notices.process()
    }

    pub(super) fn into_parts(self) -> (Arc<Members>, Notices, Stream) {
        (self.members, self.notices, self.random)
    }

    async fn enter(&mut self, terms: LeaseTimes, deadline: Instant) -> Result<(), CallError> {
        if self.session.as_ref().is_some_and(|session| session.ttl == terms.ttl && session.lost().is_none()) {
            return Ok(());
        }
        self.session = None;
        let notices = self.notices.clone();
        let companion = terms.companion;
        self.session =
            Some(LeaseSession::open(&self.members, terms.ttl, companion, notices, deadline).await?);
        Ok(())
    }

    /// Attempts to acquire until held, taken, or time is up. A failed attempt ends its session.
    pub(super) async fn acquire(
        &mut self,
        key: &str,
        terms: LeaseTimes,
        timeout: Duration,
        attempt: &impl Attempt,
    ) -> Result<Grant, Completion> {
        let deadline = Instant::now() + timeout;
        let until = deadline - (timeout / CLEANUP_SHARE).min(CLEANUP_MAX);
        loop {
            if let Err(error) = self.enter(terms, until).await {
                // No session, so no key was even asked for. A lease that was granted unseen ends by itself.
                return Err(Completion::Fail(error.why()));
            }
            let Some(session) = &self.session else { unreachable!("a session was just opened") };
            let ended = tokio::select! {
                ended = attempt.attempt(&self.members, session, until, deadline) => ended,
                // Whatever is under way is dropped, answered or not.
                reason = session.until_lost(), if attempt.aborts_on_lease_loss() => Attempted::Unclear(ErrorCode::SessionExpired.error(reason)),
            };
            let why = match ended {
                Attempted::Held(hold) => {
                    session.hold(key, attempt.aborts_on_lease_loss());
                    if hold.reports {
                        // Checkers count from the last report.
                        session.report();
                    }
                    let grant = Grant {
                        token: Some(hold.revision),
                        validity_ms: Some(millis_until(session.valid_until()).into()),
                        wakeups: hold.wakeups,
                        ..Grant::default()
                    };
                    self.held.remember(key, hold);
                    return Ok(grant);
                }
                Attempted::Taken(why) => return Err(Completion::Fail(why)),
                Attempted::Unclear(why) => why,
            };
            let ended = self.end_session(deadline).await;
            let time_is_left = ended && self.rest(until).await;
            if let Some(completion) = after_unclear(why, ended, time_is_left) {
                return Err(completion);
            }
        }
    }

    /// Rests a little. False, at once, if there is no time for another try.
    async fn rest(&mut self, until: Instant) -> bool {
        let delay = Duration::from_micros(self.random.random_range(RETRY_DELAY_US));
        if Instant::now() + delay >= until {
            return false;
        }
        sleep(delay).await;
        true
    }

    /// Gives up the session and ends its leases with all their keys. True if they certainly are ended.
    async fn end_session(&mut self, deadline: Instant) -> bool {
        let Some(session) = self.session.take() else { return false };
        self.end(&session, deadline).await
    }

    async fn end(&self, session: &LeaseSession, deadline: Instant) -> bool {
        let mut ended = true;
        for lease in session.leases() {
            ended &= self.revoke(lease, deadline).await;
        }
        ended
    }

    /// True if the lease certainly is ended, with all its keys.
    async fn revoke(&self, lease: i64, deadline: Instant) -> bool {
        is_ended(&self.members.ask(&LeaseRevokeRequest { id: lease }, deadline).await)
    }

    /// Takes the session of this lease to release a key, if it is the present one; others hold other keys.
    pub(super) fn session_of(&mut self, lease: i64, key: &str) -> Option<LeaseSession> {
        let session = self.session.take_if(|session| session.lease == lease)?;
        session.let_go(key);
        Some(session)
    }

    pub(super) fn find(&self, key: &str) -> Option<&LeasedHold> {
        self.held.find(key)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<LeasedHold> {
        self.held.take(key)
    }

    /// Gives a lock back by deleting its keys if they are still ours.
    pub(super) async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        let Some(LeasedHold { lease, keys, revision, doubt, .. }) = self.take(key) else {
            return never_acquired();
        };
        let session = self.session_of(lease, key);
        // A request that created the key twice may still be under way and create it a third time: only the
        // end of its lease is certain. The session goes with it (it is dropped here).
        if let Some(session) = session.as_ref().filter(|session| doubt && session.lost().is_none()) {
            return after_release_by_end(self.end(session, deadline).await);
        }
        let txn = TxnRequest {
            // The compare is what keeps a release from removing what another session has there. A holder that
            // was lost finds its first key gone, and leaves the others: the lock-delay of `chubby` runs.
            compare: vec![Compare::created(keys[0].clone(), revision)],
            success: keys.into_iter().map(RequestOp::delete).collect(),
            failure: Vec::new(),
        };
        let end = after_release(self.members.ask(&txn, deadline).await);
        self.put_back(session, end)
    }

    pub(super) fn put_back(&mut self, mut session: Option<LeaseSession>, end: End) -> Completion {
        let completion = end.close(&mut session);
        if session.is_some() {
            self.session = session;
        }
        completion
    }

    /// Whether the lease of this key still runs, by this process's own clock.
    pub(super) fn still_runs(&self, key: &str) -> bool {
        let session = self.session.as_ref().filter(|session| session.lost().is_none());
        session.zip(self.find(key)).is_some_and(|(session, hold)| {
            session.lease == hold.lease && Instant::now() < session.valid_until()
        })
    }

    pub(super) fn credentials(&self, key: &str) -> Credentials {
        let Some(hold) = self.find(key) else { return Credentials::default() };
        Credentials {
            token: u64::try_from(hold.revision).ok(),
            unique: Some(format!("{:x}-{}", hold.lease, hold.revision)),
            sequencer: self.sequencer(key),
            ..Credentials::default()
        }
    }

    pub(super) fn sequencer(&self, key: &str) -> Option<String> {
        self.find(key).map(|hold| sequencer(key, hold.mode, hold.revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialer::Dialer;
    use crate::protocol::Server;
    use fencepost_history::Seed;
    use serde_json::Value;
    use tokio::sync::mpsc;

    #[tokio::test]
    async fn a_release_leaves_the_session_of_other_keys_alone() {
        let (out, mut noticed) = mpsc::unbounded_channel();
        let notices = Notices::new(1, out, Arc::from([]));
        let server = Server { name: "n1".to_owned(), address: "127.0.0.1:1".to_owned(), tls_name: None };
        let members = Arc::new(Members::open(&[server], "c1", Dialer::default()).unwrap());
        let mut user = User::new(members, notices.clone(), Seed(1).stream("lock-1"));
        let done = || Completion::Ok(Value::Null);
        let lease_of = |user: &User| user.session.as_ref().map(|session| session.lease);

        let later = LeaseSession::stub(8, notices.clone());
        later.hold("b", true);
        user.session = Some(later);
        // The key was held under a session that is gone.
        let taken = user.session_of(7, "a");
        assert!(taken.is_none());
        for end in [End::keeping(done()), End::dropping(done())] {
            assert_eq!(user.put_back(None, end), done());
            assert_eq!(lease_of(&user), Some(8));
        }
        assert!(noticed.try_recv().is_err(), "the other key is still held");

        let taken = user.session_of(8, "b");
        assert_eq!(user.put_back(taken, End::keeping(done())), done());
        assert_eq!(lease_of(&user), Some(8));
        let taken = user.session_of(8, "b");
        assert_eq!(user.put_back(taken, End::dropping(done())), done());
        assert_eq!(lease_of(&user), None);
    }
}
