//! What a process holds, by key.

use crate::notices::Notices;
use fencepost_history::{Completion, ErrorCode};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// What a process was granted and has not begun to release.
pub(crate) struct Held<T>(HashMap<String, T>);

impl<T> Default for Held<T> {
    fn default() -> Held<T> {
        Held(HashMap::new())
    }
}

impl<T> Held<T> {
    pub(crate) fn remember(&mut self, key: &str, grant: T) {
        self.0.insert(key.to_owned(), grant);
    }

    /// Takes the grant that is to be released; none: see [`never_acquired`].
    pub(crate) fn take(&mut self, key: &str) -> Option<T> {
        self.0.remove(key)
    }

    pub(crate) fn find(&self, key: &str) -> Option<&T> {
        self.0.get(key)
    }

    pub(crate) fn find_mut(&mut self, key: &str) -> Option<&mut T> {
        self.0.get_mut(key)
    }
}

/// The release of what this process was never granted, or gave back: there is nothing to send.
pub(crate) fn never_acquired() -> Completion {
    Completion::fail(ErrorCode::NotHeld, "this process has not acquired the lock")
}

/// The release, or another request, of what another process has by now, or none: nothing was changed.
pub(crate) fn no_longer_held() -> Completion {
    Completion::fail(ErrorCode::NotHeld, "the lock was no longer this process's")
}

/// The keys that a process holds under one session, whose end and renewals are reported for each of them.
pub(crate) struct HeldKeys {
    keys: Mutex<Vec<String>>,
    notices: Notices,
}

impl HeldKeys {
    pub(crate) fn new(notices: Notices) -> HeldKeys {
        HeldKeys { keys: Mutex::default(), notices }
    }

    pub(crate) fn hold(&self, key: &str) {
        self.keys.lock().push(key.to_owned());
    }

    /// The process no longer holds this key, or holds it once less. False where it did not.
    pub(crate) fn let_go(&self, key: &str) -> bool {
        let mut keys = self.keys.lock();
        let place = keys.iter().position(|held| held == key);
        place.map(|place| keys.swap_remove(place)).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.lock().is_empty()
    }

    pub(crate) fn contain(&self, key: &str) -> bool {
        self.keys.lock().iter().any(|held| held == key)
    }

    pub(crate) fn lose(&self, reason: &str) {
        for key in self.keys.lock().drain(..) {
            self.notices.lost(&key, reason);
        }
    }

    /// All of them were prolonged; `age` is how long ago that was asked for.
    pub(crate) fn renew(&self, age: Duration) {
        for key in self.keys.lock().iter() {
            self.notices.renewed(key, age);
        }
    }
}
