//! What a lock knows of the run, and where it reports what happens to it.

use crate::hello::{Access, Server};
use crate::state::Shared;
use crate::{Error, Grant};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the process of a lock knows of the run. Clones are the same; they may go to other threads.
#[derive(Clone)]
pub struct Env {
    pub client: String,
    pub lock: String,
    pub process: u64,
    pub servers: Vec<Server>,
    pub access: Access,
    pub options: HashMap<String, String>,
    pub ttl: Duration,
    /// `ttl`, `session`, `connection` or `none`.
    pub lease: String,
    pub seed: u64,
    pub(crate) shared: Arc<Shared>,
}

impl Env {
    /// Repeats an attempt that does not block, until it brings a grant or an error, or the time is nearly up:
    /// an attempt that the end cuts off would be of unknown outcome. The attempt is given the time that is
    /// left. The validity then counts from the attempt that was granted.
    ///
    /// # Errors
    /// Those of an attempt.
    pub fn poll(
        &self,
        timeout: Duration,
        mut attempt: impl FnMut(Duration) -> Result<Option<Grant>, Error>,
    ) -> Result<Option<Grant>, Error> {
        let deadline = Instant::now() + timeout;
        let last = deadline - timeout / 20;
        loop {
            let now = Instant::now();
            self.shared.attempt_begins(now);
            if let Some(grant) = attempt(deadline.saturating_duration_since(now))? {
                return Ok(Some(grant));
            }
            let rest = Duration::from_micros(1_000 + self.shared.random() % 9_000);
            if Instant::now() + rest > last {
                return Ok(None);
            }
            std::thread::sleep(rest);
        }
    }

    /// Reports that the library says that the lock is lost.
    pub fn lost(&self, key: &str, reason: &str) {
        self.shared.lost(key, reason);
    }

    /// Reports that the lease was prolonged by a request that was sent so long ago.
    pub fn renewed(&self, key: &str, age: Duration) {
        self.shared.renewed(key, age);
    }
}
