//! A lock service in memory, for the fake client.

use crate::conformance::test_servers::ServersState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub(super) struct Hold {
    /// Client and process.
    pub(super) owner: (usize, u64),
    pub(super) end: Instant,
    /// How many may hold it together, by its own acquire.
    pub(super) of: usize,
}

pub(super) struct Service {
    pub(super) holds: Mutex<HashMap<String, Vec<Hold>>>,
    pub(super) tokens: AtomicU64,
    pub(super) state: watch::Sender<ServersState>,
}

impl Service {
    /// Sets the key, if it is free. Waits while the servers stand still.
    pub(super) async fn set(
        &self,
        key: &str,
        owner: (usize, u64),
        of: usize,
        ttl: Duration,
    ) -> Result<bool, &'static str> {
        let mut state = self.state.subscribe();
        let state = *state.wait_for(|state| *state != ServersState::Paused).await.expect("the servers live");
        if state == ServersState::Killed {
            return Err("refused");
        }
        let mut holds = self.holds.lock();
        let holds = holds.entry(key.to_owned()).or_default();
        holds.retain(|hold| hold.end > Instant::now());
        let is_free = holds.iter().map(|hold| hold.of).chain([of]).all(|of| holds.len() < of);
        if is_free {
            holds.push(Hold { owner, end: Instant::now() + ttl, of });
        }
        Ok(is_free)
    }

    pub(super) fn remove(&self, key: &str, owner: Option<(usize, u64)>) -> bool {
        let mut holds = self.holds.lock();
        let holds = holds.entry(key.to_owned()).or_default();
        holds.retain(|hold| hold.end > Instant::now());
        let before = holds.len();
        holds.retain(|hold| owner.is_some_and(|owner| hold.owner != owner));
        holds.len() < before
    }

    pub(super) fn is_held_by(&self, key: &str, owner: (usize, u64)) -> bool {
        let is_its = |hold: &Hold| hold.owner == owner && hold.end > Instant::now();
        self.holds.lock().get(key).is_some_and(|holds| holds.iter().any(is_its))
    }
}
