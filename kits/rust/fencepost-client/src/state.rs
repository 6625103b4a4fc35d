//! What a process believes to hold, and the way to report its changes.

use crate::hello::Client;
use crate::storage::{Credentials, Ended};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of a process, and the way to report its changes.
pub(crate) struct Shared {
    pub(crate) client: Arc<Client>,
    pub(crate) number: u64,
    /// Held while a change is reported, too: no notice overtakes the answer it belongs to.
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) over: bool,
    pub(crate) held: HashMap<String, Hold>,
    pub(crate) pending: Option<Pending>,
    random: u64,
}

/// A grant, until its release begins.
pub(crate) struct Hold {
    pub(crate) credentials: Credentials,
    pub(crate) believed: bool,
    pub(crate) ttl: Duration,
    /// By the client's own clock; none without validity.
    pub(crate) until: Option<Instant>,
    /// Whether the storage is marked with it.
    pub(crate) marked: bool,
}

/// An acquire that is under way.
pub(crate) struct Pending {
    pub(crate) names: Vec<String>,
    /// The acquire.
    pub(crate) asked: Instant,
    /// The attempt that may be granted.
    pub(crate) begun: Instant,
    pub(crate) renewed_at: Option<Instant>,
    /// Of these names, with the reasons.
    pub(crate) lost: HashMap<String, String>,
}

impl Pending {
    fn asks_for(&self, key: &str) -> bool {
        self.names.iter().any(|name| name == key)
    }
}

impl Shared {
    pub(crate) fn new(client: Arc<Client>, number: u64) -> Shared {
        let seed = client.hello["seed"].as_u64().unwrap_or_default();
        let state = State { random: seed ^ number.rotate_left(32), ..State::default() };
        Shared { client, number, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.over = true;
        state.held.clear();
    }

    /// The next of a sequence of random numbers (splitmix64).
    pub(crate) fn random(&self) -> u64 {
        let mut state = self.state();
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state.random ^ (state.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn attempt_begins(&self, now: Instant) {
        if let Some(pending) = &mut self.state().pending {
            pending.begun = now;
        }
    }

    pub(crate) fn lost(&self, key: &str, reason: &str) {
        let mut state = self.state();
        if let Some(hold) = state.held.get_mut(key).filter(|hold| hold.believed) {
            hold.believed = false;
            self.notice("lost", key, "reason", reason.into());
        } else if let Some(pending) = state.pending.as_mut().filter(|pending| pending.asks_for(key)) {
            pending.lost.insert(key.to_owned(), reason.to_owned());
        }
    }

    pub(crate) fn renewed(&self, key: &str, age: Duration) {
        let mut state = self.state();
        let sent = Instant::now().checked_sub(age);
        if let Some(hold) = state.held.get_mut(key).filter(|hold| hold.believed) {
            if let (Some(until), Some(sent)) = (&mut hold.until, sent) {
                *until = sent + hold.ttl;
            }
            self.notice("renewed", key, "age_ms", millis(age).into());
        } else if let Some(pending) = state.pending.as_mut().filter(|pending| pending.asks_for(key)) {
            pending.renewed_at = sent;
        }
    }

    pub(crate) fn notice(&self, event: &str, key: &str, name: &str, value: Value) {
        self.client.send(&json!({"event": event, "process": self.number, "key": key, name: value}));
    }

    pub(crate) fn answer(&self, command: &Value, ended: Ended) {
        let mut answer = json!({"id": command["id"], "type": ended.kind});
        // That no leader is known is an answer, too.
        if !ended.value.is_null() || (ended.kind == "ok" && command["f"] == "leader") {
            answer["value"] = ended.value;
        }
        if let Some(error) = ended.error {
            answer["error"] = error.into();
        }
        self.client.send(&answer);
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
