//! A session: a lease, and the task that keeps it alive until it is dropped. Source:
//! `client/v3/concurrency/session.go` and `client/v3/lease.go` of etcd: a keepalive every third of the TTL;
//! the session ends when the server says so, or when no keepalive was answered for the whole TTL.

use super::api::LeaseGrantRequest;
use super::client::KeepAlive;
use super::members::{CallError, Members};
use crate::held::HeldKeys;
use crate::notices::Notices;
use fencepost_history::ErrorCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tonic::Status;

const REST: Duration = Duration::from_millis(50);

/// A lease that is being kept alive. Dropping it stops that, and the lease ends with its TTL.
pub(super) struct LeaseSession {
    pub(super) lease: i64,
    /// A second lease that lasts longer, and is kept alive together with the first.
    companion: Option<i64>,
    pub(super) ttl: Duration,
    state: Arc<State>,
    keeper: tokio::task::JoinHandle<()>,
}

struct State {
    /// When the last answered keepalive was sent: the lease runs for its TTL from some moment since then.
    renewed: watch::Sender<Instant>,
    lost: watch::Sender<Option<String>>,
    wanted: Notify,
    held: HeldKeys,
}

impl LeaseSession {
    /// Has a lease granted, and a companion that lasts so long, and begins to keep them alive.
    pub(super) async fn open(
        members: &Arc<Members>,
        ttl: Duration,
        companion: Option<Duration>,
        notices: Notices,
        deadline: Instant,
    ) -> Result<LeaseSession, CallError> {
        let companion = match companion {
            Some(ttl) => Some(grant(members, ttl, deadline).await?.1),
            None => None,
        };
        let (sent, lease) = grant(members, ttl, deadline).await?;
        let state = Arc::new(State {
            renewed: watch::Sender::new(sent),
            lost: watch::Sender::new(None),
            wanted: Notify::new(),
            held: HeldKeys::new(notices),
        });
        let keeper = tokio::spawn(keep_alive(members.clone(), lease, companion, ttl, state.clone()));
        Ok(LeaseSession { lease, companion, ttl, state, keeper })
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = i64> {
        [Some(self.lease), self.companion].into_iter().flatten()
    }

    /// Why the session is over; none while it is not, as far as this client knows.
    pub(super) fn lost(&self) -> Option<String> {
        self.state.lost.borrow().clone()
    }

    pub(super) async fn until_lost(&self) -> String {
        let mut lost = self.state.lost.subscribe();
        let reason = lost.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        reason.unwrap_or_default()
    }

    /// Returns when a keepalive since `since` was answered: the lease runs for at least its TTL from then.
    pub(super) async fn renewed_since(&self, since: Instant) {
        let mut renewed = self.state.renewed.subscribe();
        if *renewed.borrow_and_update() < since {
            self.state.wanted.notify_one();
            let _ = renewed.wait_for(|sent| *sent >= since).await;
        }
    }

    /// Until when the lease runs at least, by this client's own clock.
    pub(super) fn valid_until(&self) -> Instant {
        *self.state.renewed.borrow() + self.ttl
    }

    /// The process holds this key: notices report renewals and loss, also an earlier one unless ignored.
    pub(super) fn hold(&self, key: &str, aborts_on_lease_loss: bool) {
        self.let_go(key);
        self.state.held.hold(key);
        // In this order: an end in between finds the key there.
        if let Some(reason) = self.lost().filter(|_| aborts_on_lease_loss) {
            self.state.held.lose(&reason);
        }
    }

    pub(super) fn report(&self) {
        self.state.held.renew(self.state.renewed.borrow().elapsed());
    }

    pub(super) fn let_go(&self, key: &str) {
        self.state.held.let_go(key);
    }
}

impl Drop for LeaseSession {
    fn drop(&mut self) {
        self.keeper.abort();
        self.state.end("the session was given up");
    }
}

impl State {
    fn end(&self, reason: &str) {
        if self.lost.borrow().is_some() {
            return;
        }
        self.lost.send_replace(Some(reason.to_owned()));
        self.held.lose(reason);
    }

    fn renew(&self, sent: Instant, ttl: Duration) {
        self.renewed.send_replace(sent);
        let age = sent.elapsed();
        // An answer that was read late says little about now, and the next keepalive is due already.
        if age < ttl / 3 {
            self.held.renew(age);
        }
    }
}

/// Has a lease granted. Gives when that was asked for, and its number.
async fn grant(members: &Members, ttl: Duration, deadline: Instant) -> Result<(Instant, i64), CallError> {
    let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
    // A lease that was granted without our seeing the answer has no keys, and ends by itself.
    let granted = members
        .call(deadline, |client| async move {
            let sent = Instant::now();
            client.call(LeaseGrantRequest { ttl_s: seconds }).await.map(|lease| (sent, lease))
        })
        .await?;
    let (sent, lease) = granted.answer;
    if lease.ttl_s != seconds || ttl.subsec_nanos() != 0 {
        let why = ErrorCode::Other.error(format_args!(
            "ttl: etcd gave a lease of {} s for a TTL of {} ms",
            lease.ttl_s,
            ttl.as_millis()
        ));
        return Err(CallError::Refused { why, lease_not_found: false, doubt: false });
    }
    Ok((sent, lease.id))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Keepalive {
    Alive,
    /// The server does not know the lease any more.
    Expired,
    /// It may have been prolonged or not.
    Failed,
}

/// After a keepalive: whether the server knows the lease, an error, or nothing in time.
fn after_keepalive(reply: Option<Result<bool, Status>>) -> Keepalive {
    match reply {
        Some(Ok(true)) => Keepalive::Alive,
        Some(Ok(false)) => Keepalive::Expired,
        Some(Err(_)) | None => Keepalive::Failed,
    }
}

async fn keep_alive(
    members: Arc<Members>,
    lease: i64,
    companion: Option<i64>,
    ttl: Duration,
    state: Arc<State>,
) {
    let (mut stream, mut companion_stream) = (None, None);
    loop {
        let last = *state.renewed.borrow();
        tokio::select! {
            () = sleep_until(last + ttl / 3) => {}
            () = state.wanted.notified() => {}
        }
        let end = last + ttl;
        let sent = Instant::now();
        // Also what a client finds that was stopped for longer than the TTL: it asks no more.
        if sent >= end {
            return state.end("no keepalive was answered for the whole TTL");
        }
        let until = end.min(sent + ttl / 3);
        let mut answered = (0, Keepalive::Alive);
        // The companion first: it must outlast the session's own lease, and is prolonged whenever that is.
        if let Some(companion) = companion {
            answered = send_keepalive(&members, companion, &mut companion_stream, until).await;
        }
        if let Keepalive::Alive = answered.1 {
            answered = send_keepalive(&members, lease, &mut stream, until).await;
        }
        let (place, keepalive) = answered;
        match keepalive {
            Keepalive::Alive => state.renew(sent, ttl),
            Keepalive::Expired => return state.end("the lease expired: the server no longer knows it"),
            Keepalive::Failed => {
                (stream, companion_stream) = (None, None);
                members.turn_from(place).await;
                sleep(REST).await;
                // Until it is answered, the next one is due at once.
                state.wanted.notify_one();
            }
        }
    }
}

type Stream = (usize, KeepAlive);

/// Sends one keepalive and reads its answer. Gives the member that was asked, too.
async fn send_keepalive(
    members: &Members,
    lease: i64,
    stream: &mut Option<Stream>,
    deadline: Instant,
) -> (usize, Keepalive) {
    let (place, client) = match stream {
        Some((place, _)) => (*place, None),
        None => {
            let (place, client) = members.current();
            (place, Some(client))
        }
    };
    let exchange = async {
        if let Some(client) = client {
            *stream = Some((place, client.keep_alive(lease).await?));
        }
        match stream {
            Some((_, keep_alive)) => keep_alive.renew().await,
            None => unreachable!("the stream was just opened"),
        }
    };
    (place, after_keepalive(timeout_at(deadline, exchange).await.ok()))
}

#[cfg(test)]
impl LeaseSession {
    pub(super) fn stub(lease: i64, notices: Notices) -> LeaseSession {
        let state = State {
            renewed: watch::Sender::new(Instant::now()),
            lost: watch::Sender::new(None),
            wanted: Notify::new(),
            held: HeldKeys::new(notices),
        };
        let (state, keeper) = (Arc::new(state), tokio::spawn(std::future::pending()));
        LeaseSession { lease, companion: None, ttl: Duration::from_secs(2), state, keeper }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn a_lease_is_expired_by_the_word_of_a_server_only() {
        assert_eq!(after_keepalive(Some(Ok(true))), Keepalive::Alive);
        assert_eq!(after_keepalive(Some(Ok(false))), Keepalive::Expired);
        for status in [Status::unavailable("no leader"), Status::not_found("x"), Status::cancelled("x")] {
            assert_eq!(after_keepalive(Some(Err(status))), Keepalive::Failed);
        }
        assert_eq!(after_keepalive(None), Keepalive::Failed);
    }

    #[tokio::test]
    async fn a_process_learns_that_its_lease_was_lost_before_its_grant_was_known() {
        let (out, mut noticed) = mpsc::unbounded_channel();
        let session = LeaseSession::stub(7, Notices::new(1, out, Arc::from([])));
        session.hold("a", true);
        session.hold("a", true);
        session.state.end("the lease expired");
        session.hold("b", true);
        session.hold("c", false);
        drop(session);
        let mut lost = Vec::new();
        while let Ok(notice) = noticed.try_recv() {
            lost.push((notice.key, notice.reason.unwrap_or_default()));
        }
        let expected = ["a", "b"].map(|key| (key.to_owned(), "the lease expired".to_owned()));
        assert_eq!(lost, expected, "each once, and the end of the session adds none");
    }
}
