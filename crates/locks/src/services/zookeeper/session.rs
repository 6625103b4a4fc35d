//! A session: kept alive until dropped. Source: Curator's advice on its connection states. On SUSPENDED the
//! holder gets a notice at once; a waiter goes on once the session is alive.

use super::servers::ZkServers;
use super::service::TICK;
use crate::held::HeldKeys;
use crate::notices::Notices;
use fencepost_history::{ErrorCode, OperationError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use zookeeper_client::{Client, SessionState};

/// Dropping it stops the heartbeats, and the session ends with its time-out: a crash.
pub(super) struct ZkSession {
    pub(super) client: Client,
    pub(super) ttl: Duration,
    state: Arc<State>,
    keeper: tokio::task::JoinHandle<()>,
}

struct State {
    /// When the last request was sent that the leader is known to have answered.
    renewed: watch::Sender<Instant>,
    held: HeldKeys,
    ttl: Duration,
}

impl ZkSession {
    /// Has a session of that time-out opened. The error is a sentence; what was opened unseen owns no znode.
    pub(super) async fn open(
        servers: &ZkServers,
        ttl: Duration,
        notices: Notices,
        deadline: Instant,
    ) -> Result<ZkSession, OperationError> {
        let sent = Instant::now();
        // Detached: dropping it does not end the session, for a client that crashes does not either.
        let connector = Client::connector().with_session_timeout(ttl).with_detached();
        let client = match timeout_at(deadline, servers.connect(connector)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                return Err(ErrorCode::Unreachable.error(format_args!("no session with ZooKeeper: {error}")));
            }
            Err(_) => return Err(ErrorCode::Timeout.error("no session with ZooKeeper was opened in time")),
        };
        if client.session_timeout() != ttl {
            let given = client.session_timeout().as_millis();
            return Err(ErrorCode::Other.error(format_args!(
                "ttl: ZooKeeper gave a session of {given} ms for a TTL of {} ms",
                ttl.as_millis()
            )));
        }
        let held = HeldKeys::new(notices);
        let state = Arc::new(State { renewed: watch::Sender::new(sent), held, ttl });
        let keeper = tokio::spawn(keep(client.clone(), state.clone()));
        Ok(ZkSession { client, ttl, state, keeper })
    }

    pub(super) fn lives(&self) -> bool {
        !self.client.state().is_terminated()
    }

    /// A request sent at `sent` was answered by way of the leader.
    pub(super) fn renewed_at(&self, sent: Instant) {
        self.state.renewed.send_if_modified(|renewed| {
            let later = sent > *renewed;
            *renewed = sent.max(*renewed);
            later
        });
    }

    /// Until when the session lives at least, by this client's own clock.
    pub(super) fn valid_until(&self) -> Instant {
        *self.state.renewed.borrow() + self.ttl.saturating_sub(lag(self.ttl))
    }

    /// The process holds this key: notices tell of prolongation and doubt, also of an earlier doubt.
    pub(super) fn hold(&self, key: &str) {
        self.state.held.hold(key);
        // In this order: a change in between finds the key there.
        if let Some(reason) = doubt(self.client.state()) {
            self.state.held.lose(reason);
        }
    }

    pub(super) fn held(&self) -> &HeldKeys {
        &self.state.held
    }

    pub(super) fn report(&self) {
        self.state.held.renew(self.state.renewed.borrow().elapsed() + lag(self.ttl));
    }
}

impl Drop for ZkSession {
    fn drop(&mut self) {
        self.keeper.abort();
        self.state.held.lose("the session was given up");
    }
}

/// The leader ends a session its time-out after it last *heard* of it. Followers report every half tick, and
/// an idle client pings after 3/20 of the time-out: what the leader heard can be that much older.
fn lag(ttl: Duration) -> Duration {
    TICK / 2 + ttl * 3 / 20
}

impl State {
    fn renew(&self, sent: Instant) {
        self.renewed.send_replace(sent);
        let age = sent.elapsed();
        // An answer that was read late says little about now, and the next heartbeat is due already.
        if age < self.ttl / 3 {
            self.held.renew(age + lag(self.ttl));
        }
    }
}

/// Why a lock of a session in this state may be lost; none where nothing speaks for that.
fn doubt(state: SessionState) -> Option<&'static str> {
    match state {
        SessionState::Disconnected => Some("suspended: the connection to ZooKeeper broke"),
        state if state.is_terminated() => Some("expired: the session is over"),
        _ => None,
    }
}

/// Sends a heartbeat every third of the time-out: a `sync`, since the leader answers that and no ping.
async fn keep(client: Client, state: Arc<State>) {
    let mut states = client.state_watcher();
    loop {
        let last = *state.renewed.borrow();
        tokio::select! {
            changed = states.changed() => {
                if let Some(reason) = doubt(changed) {
                    state.held.lose(reason);
                }
                if changed.is_terminated() {
                    return;
                }
            }
            () = sleep_until(last + state.ttl / 3) => {
                let sent = Instant::now();
                // This is also what a client finds that was stopped for longer than the TTL.
                if sent >= last + state.ttl {
                    state.held.lose("no heartbeat was answered for the whole TTL");
                }
                match timeout_at(sent + state.ttl / 3, client.sync("/")).await {
                    Ok(Ok(())) => state.renew(sent),
                    // A change of state says what became of it; meanwhile do not spin.
                    Ok(Err(_)) => sleep_until(sent + state.ttl / 20).await,
                    Err(_) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_broke_is_taken_for_a_lock_that_may_be_lost() {
        let lost = |state| doubt(state).and_then(|reason| reason.split(':').next());
        assert_eq!(lost(SessionState::SyncConnected), None);
        assert_eq!(lost(SessionState::Disconnected), Some("suspended"));
        for over in [SessionState::Expired, SessionState::AuthFailed, SessionState::Closed] {
            assert_eq!(lost(over), Some("expired"));
        }
    }
}
