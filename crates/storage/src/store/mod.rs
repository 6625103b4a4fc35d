//! What the storage keeps: a value per key (a counter, or a list), and the guard in front of it.

use crate::guards::{Credentials, Guard, Need, Record, Rejection, Write};
use crate::log::AccessLog;
use crate::protocol::{Function, Request, Response};
use crate::sequencers::Sequencers;
use fencepost_history::{ErrorCode, OperationError, ResourceUse, f, users};
use parking_lot::Mutex;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

pub(crate) struct Storage {
    guard: &'static Guard,
    /// Time between check and write in a guard of two steps, for the first of several writes of a key.
    write_delay: Duration,
    sequencers: Option<Box<dyn Sequencers>>,
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    by_key: HashMap<String, Record>,
    /// Beside the records, so that its order is that in which they changed.
    log: Option<AccessLog>,
}

impl Records {
    fn record(&mut self, key: &str) -> &mut Record {
        // Not `entry`, which would need a copy of the key each time.
        if !self.by_key.contains_key(key) {
            self.by_key.insert(key.to_owned(), Record::default());
        }
        self.by_key.get_mut(key).expect("inserted just now")
    }

    /// Stores an admitted write. Gives the value; of a list its length, of a resource its users.
    fn put(&mut self, key: &str, value: Value, version: Option<(u64, u64)>, process: Option<u64>) -> Value {
        let written = value.as_array().map_or(&value, |list| list.last().unwrap_or(&Value::Null));
        self.note(key, process, f::WRITE, written);
        let record = self.record(key);
        // The storage itself counts users, in one step: two that come at once would overwrite each other.
        let used = ResourceUse::of(&value).map(|used| used.apply(&record.value));
        (record.value, record.version) = (used.unwrap_or(value), version);
        if let Some(users) = users(&record.value) {
            return users.len().into();
        }
        record.value.as_array().map_or_else(|| record.value.clone(), |list| list.len().into())
    }

    fn note(&mut self, key: &str, process: Option<u64>, f: &str, value: &Value) {
        if let (Some(log), Some(process)) = (&mut self.log, process) {
            log.add(key, process, f, value);
        }
    }
}

impl Storage {
    pub(crate) fn new(
        guard: &'static Guard,
        write_delay: Duration,
        sequencers: Option<Box<dyn Sequencers>>,
    ) -> Storage {
        Storage { guard, write_delay, sequencers, records: Mutex::default() }
    }

    pub(crate) fn with_log(self, log: AccessLog) -> Storage {
        self.records.lock().log = Some(log);
        self
    }

    pub(crate) async fn answer(&self, request: Request<'_>) -> Response {
        let id = request.id;
        let (answer, version) = match request.f {
            Function::Read => {
                let mut records = self.records.lock();
                records.note(&request.key, request.credentials.process, f::READ, &Value::Null);
                let record = records.record(&request.key);
                self.guard.saw_read(record, &request.credentials);
                (Ok(record.value.clone()), record.version)
            }
            Function::Write => (self.write(request).await, None),
            Function::Mark => {
                let marked = self.guard.mark(self.records.lock().record(&request.key), &request.credentials);
                (marked.map(|()| Value::Null).map_err(rejected), None)
            }
            Function::Ping => (Ok(Value::Null), None),
        };
        match answer {
            Ok(value) => Response { id, ok: Some(value), fail: None, version },
            Err(error) => Response { id, ok: None, fail: Some(error), version: None },
        }
    }

    async fn write(&self, request: Request<'_>) -> Result<Value, OperationError> {
        let credentials = request.credentials.into_owned();
        let (process, version) = (credentials.process, credentials.token.zip(request.number));
        let value = request.value.map(Cow::into_owned).filter(|value| value.is_i64() || value.is_array());
        let Some(value) = value else {
            return Err(ErrorCode::BadCommand.error("a write needs a value, a whole number or a list"));
        };
        let key = request.key.as_ref();
        let write = Write { value, credentials };
        self.check_sequencer(&write.credentials).await.map_err(rejected)?;
        {
            let mut records = self.records.lock();
            let record = records.record(key);
            self.guard.admit(record, &write).map_err(rejected)?;
            if !self.guard.in_two_steps {
                if self.guard.replicas > 1 && record.version > version {
                    // Overtaken by a later write of the same holder: it is as if this one had come before.
                    return Ok(Value::Null);
                }
                return Ok(records.put(key, write.value, version, process));
            }
            record.unwritten += 1;
        }
        Ok(self.write_later(key, write.value, process).await)
    }

    /// The second step of a guard that works in two. The first write to come waits; one that finds another
    /// waiting goes ahead of it, so that a run that arranges for two to come together knows how it ends.
    async fn write_later(&self, key: &str, value: Value, process: Option<u64>) -> Value {
        let alone = self.records.lock().record(key).unwritten == 1;
        if alone && !self.write_delay.is_zero() {
            tokio::time::sleep(self.write_delay).await;
        } else {
            tokio::task::yield_now().await;
        }
        let mut records = self.records.lock();
        records.record(key).unwritten -= 1;
        records.put(key, value, None, process)
    }

    /// Asks the lock service whether the lock is still held, if the guard needs a sequencer.
    async fn check_sequencer(&self, credentials: &Credentials) -> Result<(), Rejection> {
        if self.guard.needs != Need::Sequencer {
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

/// Every guard's reason gets the same code in front: a client knows a rejection without knowing the guard.
fn rejected(rejection: Rejection) -> OperationError {
    ErrorCode::Rejected.error(rejection)
}

#[cfg(test)]
mod tests;
