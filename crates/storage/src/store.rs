//! What the storage keeps: a value per key (a counter, or a list), and the guard in front of it.

use crate::guards::{Credentials, Guard, Need, Record, Rejection, Write};
use crate::protocol::{Function, Request, Response};
use crate::sequencers::Sequencers;
use fencepost_history::{ErrorCode, OperationError};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// The storage as all its connections share it.
pub(crate) struct Storage {
    guard: &'static dyn Guard,
    /// Time between check and write of a guard that works in two steps, for the first of several writes of a key.
    write_delay: Duration,
    /// Tells a guard whether a lock is still held.
    sequencers: Option<Box<dyn Sequencers>>,
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records(HashMap<String, Record>);

impl Records {
    fn record(&mut self, key: &str) -> &mut Record {
        // Not `entry`, which would need a copy of the key each time.
        if !self.0.contains_key(key) {
            self.0.insert(key.to_owned(), Record::default());
        }
        self.0.get_mut(key).expect("inserted just now")
    }

    /// Stores the value of a write that was admitted. Gives the value; of a list its length.
    fn put(&mut self, key: &str, value: Value, version: Option<(u64, u64)>) -> Value {
        let record = self.record(key);
        (record.value, record.version) = (value, version);
        record.value.as_array().map_or_else(|| record.value.clone(), |list| list.len().into())
    }
}

impl Storage {
    pub(crate) fn new(
        guard: &'static dyn Guard,
        write_delay: Duration,
        sequencers: Option<Box<dyn Sequencers>>,
    ) -> Storage {
        Storage { guard, write_delay, sequencers, records: Mutex::default() }
    }

    /// Carries a request out, or answers why it was not carried out.
    pub(crate) async fn answer(&self, request: &Request<'_>) -> Response {
        let key = request.key.as_ref();
        let (answer, version) = match request.f {
            Function::Read => {
                let mut records = self.records.lock();
                let record = records.record(key);
                self.guard.saw_read(record, &request.credentials());
                (Ok(record.value.clone()), record.version)
            }
            Function::Write => (self.write(key, request).await, None),
            Function::Mark => {
                let marked = self.guard.mark(self.records.lock().record(key), &request.credentials());
                (marked.map(|()| Value::Null).map_err(|rejection| rejected(&rejection)), None)
            }
            Function::Ping => (Ok(Value::Null), None),
        };
        let id = request.id;
        match answer {
            Ok(value) => Response { id, ok: Some(value), fail: None, version },
            Err(error) => Response { id, ok: None, fail: Some(error), version: None },
        }
    }

    async fn write(&self, key: &str, request: &Request<'_>) -> Result<Value, OperationError> {
        let Some(value) = request.value.as_deref().filter(|value| value.is_i64() || value.is_array()) else {
            return Err(ErrorCode::BadCommand.error("a write needs a value, a whole number or a list"));
        };
        let write = Write { value: value.clone(), credentials: request.credentials() };
        let admitted = match self.check_sequencer(&write.credentials).await {
            Ok(()) => self.admit(key, &write, request),
            Err(rejection) => Err(rejection),
        };
        match admitted {
            Ok(Some(stored)) => Ok(stored),
            Ok(None) => Ok(self.write_later(key, write.value).await),
            Err(rejection) => Err(rejected(&rejection)),
        }
    }

    /// The guard's decision. Gives the stored value; nothing, if the guard works in two steps and this was the first.
    fn admit(&self, key: &str, write: &Write, request: &Request<'_>) -> Result<Option<Value>, Rejection> {
        let mut records = self.records.lock();
        let record = records.record(key);
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
        Ok(Some(records.put(key, write.value.clone(), version)))
    }

    /// The second step of a guard that works in two. The first write to come waits; one that finds another waiting goes
    /// ahead of it, so that a run that arranges for two to come together knows how it ends.
    async fn write_later(&self, key: &str, value: Value) -> Value {
        let alone = self.records.lock().record(key).unwritten == 1;
        if alone && !self.write_delay.is_zero() {
            tokio::time::sleep(self.write_delay).await;
        } else {
            tokio::task::yield_now().await;
        }
        let mut records = self.records.lock();
        records.record(key).unwritten -= 1;
        records.put(key, value, None)
    }

    /// Asks the lock service whether the lock is still held, if the guard needs a sequencer.
    async fn check_sequencer(&self, credentials: &Credentials) -> Result<(), Rejection> {
        if self.guard.needs() != Need::Sequencer {
            return Ok(());
        }
        // Without a sequencer the guard itself rejects the write.
        let Some(sequencer) = &credentials.sequencer else { return Ok(()) };
        let Some(sequencers) = &self.sequencers else {
            return Err(Rejection::new("no-lock-service", "this storage knows no lock service to ask"));
        };
        match sequencers.valid(sequencer).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let detail = format_args!("the lock service no longer knows {sequencer}");
                Err(Rejection::new("stale-sequencer", detail))
            }
            // Without an answer the lock may be lost.
            Err(reason) => Err(Rejection::new("no-lock-service", reason)),
        }
    }
}

/// What the storage answers if its guard rejects. Every guard's reason gets the same code in front, so that a client
/// knows a rejection from other errors without knowing the guard.
fn rejected(rejection: &Rejection) -> OperationError {
    ErrorCode::Rejected.error(rejection)
}

#[cfg(test)]
mod tests;
