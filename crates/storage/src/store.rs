//! What the storage keeps: a value per key (a counter, or a list), and the guard in front of it.

use crate::guards::{Credentials, Guard, Need, Record, Write};
use crate::protocol::{Request, Response, Stats};
use crate::sequencers::Sequencers;
use fencepost_history::ErrorCode;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// The storage as all its connections share it.
pub(crate) struct Storage {
    guard: &'static dyn Guard,
    /// How long a guard that works in two steps rests between them, where nobody rests on that key already.
    write_delay: Duration,
    /// Whom a guard asks that wants to know whether a lock is still held.
    sequencers: Option<Box<dyn Sequencers>>,
    store: Mutex<Store>,
}

#[derive(Default)]
struct Store {
    records: HashMap<String, Record>,
    stats: Stats,
}

impl Store {
    fn record(&mut self, key: &str) -> &mut Record {
        // Not `entry`, which would need a copy of the key each time.
        if !self.records.contains_key(key) {
            self.records.insert(key.to_owned(), Record::default());
        }
        self.records.get_mut(key).expect("inserted just now")
    }

    /// Stores the value of a write that was admitted.
    fn put(&mut self, key: &str, value: Value, version: Option<(u64, u64)>) -> Value {
        self.stats.accepted += 1;
        let record = self.record(key);
        (record.value, record.version) = (value, version);
        // A list would only be repeated at length.
        record.value.as_array().map_or_else(|| record.value.clone(), |list| list.len().into())
    }
}

impl Storage {
    pub(crate) fn new(
        guard: &'static dyn Guard,
        write_delay: Duration,
        sequencers: Option<Box<dyn Sequencers>>,
    ) -> Storage {
        Storage { guard, write_delay, sequencers, store: Mutex::default() }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    /// Carries a request out, or says why not.
    pub(crate) async fn answer(&self, request: &Request<'_>) -> Response {
        let (mut version, key) = (None, request.key.as_ref());
        let answer = match request.f.as_ref() {
            "read" => {
                let mut store = self.store();
                store.stats.reads += 1;
                let record = store.record(key);
                self.guard.saw_read(record, &request.credentials());
                version = record.version;
                Ok(record.value.clone())
            }
            "mark" => match self.guard.mark(self.store().record(key), &request.credentials()) {
                Ok(()) => Ok(Value::Null),
                Err(why) => Err(rejected(&why)),
            },
            "write" => self.write(key, request).await,
            "stats" => {
                serde_json::to_value(self.store().stats).map_err(|error| format!("bad-request: {error}"))
            }
            other => {
                Err(format!("bad-request: this storage knows read, mark, write and stats, not `{other}`"))
            }
        };
        match answer {
            Ok(value) => Response { id: request.id, ok: Some(value), fail: None, version },
            Err(why) => Response { id: request.id, fail: Some(why), ..Response::default() },
        }
    }

    async fn write(&self, key: &str, request: &Request<'_>) -> Result<Value, String> {
        let Some(value) = request.value.as_deref().filter(|value| value.is_i64() || value.is_array()) else {
            return Err("bad-request: a write needs a value, a whole number or a list".to_owned());
        };
        let write = Write { value: value.clone(), credentials: request.credentials() };
        let admitted = match self.ask_lock_service(&write.credentials).await {
            Ok(()) => self.admit(key, &write, request),
            refusal => refusal.map(|()| None),
        };
        match admitted {
            Ok(Some(stored)) => Ok(stored),
            Ok(None) => Ok(self.write_later(key, write.value).await),
            Err(why) => {
                self.store().stats.rejected += 1;
                Err(rejected(&why))
            }
        }
    }

    /// The guard's decision. Gives what was stored, in the same step; or nothing, where the guard works in two.
    fn admit(&self, key: &str, write: &Write, request: &Request<'_>) -> Result<Option<Value>, String> {
        let mut store = self.store();
        let record = store.record(key);
        self.guard.admit(record, write)?;
        if self.guard.in_two_steps() {
            record.unwritten += 1;
            return Ok(None);
        }
        let version = request.token.zip(request.number);
        if self.guard.replicas() > 1 && record.version > version {
            // Overtaken by a later write of the same holder: it is as if this one had come before.
            return Ok(Some(Value::Null));
        }
        Ok(Some(store.put(key, write.value.clone(), version)))
    }

    /// The second step of a guard that works in two. The first write to come rests; one that finds another resting
    /// goes ahead of it, so that whoever arranges for two to come together knows how it ends.
    async fn write_later(&self, key: &str, value: Value) -> Value {
        let alone = self.store().record(key).unwritten == 1;
        if alone && !self.write_delay.is_zero() {
            tokio::time::sleep(self.write_delay).await;
        } else {
            tokio::task::yield_now().await;
        }
        let mut store = self.store();
        store.record(key).unwritten -= 1;
        store.put(key, value, None)
    }

    /// Asks whether the lock is still held, where the guard wants to know.
    async fn ask_lock_service(&self, credentials: &Credentials) -> Result<(), String> {
        if self.guard.needs() != Need::Sequencer {
            return Ok(());
        }
        // Without a sequencer the guard itself refuses.
        let Some(sequencer) = &credentials.sequencer else { return Ok(()) };
        let Some(sequencers) = &self.sequencers else {
            return Err("no-lock-service: this storage was not told whom to ask for sequencers".to_owned());
        };
        match sequencers.valid(sequencer).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("stale-sequencer: the lock service no longer knows {sequencer}")),
            // Who cannot be asked has not said yes.
            Err(why) => Err(format!("no-lock-service: {why}")),
        }
    }
}

/// What the storage answers where its guard refuses. Every guard's reason gets the same code in front, so that a client
/// knows a rejection from other errors without knowing the guard.
fn rejected(why: &str) -> String {
    ErrorCode::Rejected.error(why).to_string()
}

#[cfg(test)]
mod tests;
