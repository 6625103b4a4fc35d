//! The storage: what the lock protects. A small server with a counter per key, and a guard in front of it.
//!
//! It speaks JSON lines over TCP. Requests of one connection are answered in their order:
//!
//! ```text
//! → {"id":1,"f":"read","key":"a","token":33}               ← {"id":1,"ok":7}
//! → {"id":2,"f":"write","key":"a","value":8,"token":33}    ← {"id":2,"ok":8}   or   {"id":2,"fail":"stale-token: 33 < 35"}
//! → {"id":3,"f":"stats"}                                   ← {"id":3,"ok":{"reads":1,"accepted":1,"rejected":0}}
//! ```

use crate::guards::{Guard, Record, Write, find_guard, guards};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A line longer than this is no request.
const LINE_MAX: usize = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) id: u64,
    #[serde(borrow)]
    pub(crate) f: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) key: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ok: Option<Value>,
    /// The request was certainly not carried out, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fail: Option<String>,
}

/// What a storage has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub reads: u64,
    /// Writes that were stored.
    pub accepted: u64,
    /// Writes that the guard refused.
    pub rejected: u64,
}

struct Store {
    guard: &'static dyn Guard,
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

    fn answer(&mut self, request: &Request) -> Result<Value, String> {
        let guard = self.guard;
        match request.f.as_ref() {
            "read" => {
                self.stats.reads += 1;
                let record = self.record(&request.key);
                guard.saw_read(record, request.token);
                Ok(record.value.into())
            }
            "write" => {
                let value = request.value.ok_or("bad-request: a write needs a value, a whole number")?;
                let record = self.record(&request.key);
                // One step: nothing else runs between the guard's decision and the write.
                match guard.admit(record, &Write { value, token: request.token }) {
                    Ok(()) => {
                        record.value = value;
                        self.stats.accepted += 1;
                        Ok(value.into())
                    }
                    Err(why) => {
                        self.stats.rejected += 1;
                        Err(why)
                    }
                }
            }
            "stats" => serde_json::to_value(self.stats).map_err(|error| format!("bad-request: {error}")),
            other => Err(format!("bad-request: this storage knows read, write and stats, not `{other}`")),
        }
    }
}

/// The program `fencepost storage`: serves until it is killed.
///
/// Returns the exit code: 254 for a guard that does not exist, 255 for an address that cannot be had.
pub async fn run_storage(listen: &str, guard: &str) -> i32 {
    let Some(found) = find_guard(guard) else {
        let names: Vec<&str> = guards().iter().map(|guard| guard.name()).collect();
        eprintln!("there is no guard `{guard}` (there are: {})", names.join(", "));
        return 254;
    };
    match TcpListener::bind(listen).await {
        Ok(listener) => {
            serve_storage(listener, found).await;
            0
        }
        Err(error) => {
            eprintln!("the storage cannot listen on {listen}: {error}");
            255
        }
    }
}

/// Serves on a listener that is bound already.
pub async fn serve_storage(listener: TcpListener, guard: &'static dyn Guard) {
    let store = Arc::new(Mutex::new(Store { guard, records: HashMap::new(), stats: Stats::default() }));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let store = store.clone();
                // A connection that breaks concerns nobody but its client.
                tokio::spawn(async move { serve_connection(stream, store).await });
            }
            // Out of file descriptors, say. What is open goes on; do not spin meanwhile.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

async fn serve_connection(mut stream: TcpStream, store: Arc<Mutex<Store>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::with_capacity(4096);
    let mut output = Vec::with_capacity(4096);
    while stream.read_buf(&mut input).await? > 0 {
        let mut begin = 0;
        while let Some(length) = input[begin..].iter().position(|byte| *byte == b'\n') {
            let line = &input[begin..begin + length];
            let Ok(request) = serde_json::from_slice::<Request>(line) else {
                // Without an id there is nobody to answer: whoever sent this does not speak the protocol.
                return Ok(());
            };
            let (ok, fail) = match store.lock().expect("never poisoned").answer(&request) {
                Ok(value) => (Some(value), None),
                Err(why) => (None, Some(why)),
            };
            serde_json::to_writer(&mut output, &Response { id: request.id, ok, fail })?;
            output.push(b'\n');
            begin += length + 1;
        }
        input.drain(..begin);
        if input.len() > LINE_MAX {
            return Ok(());
        }
        stream.write_all(&output).await?;
        output.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(guard: &str) -> Store {
        let guard = find_guard(guard).expect("there");
        Store { guard, records: HashMap::new(), stats: Stats::default() }
    }

    fn ask(store: &mut Store, line: &str) -> Result<Value, String> {
        store.answer(&serde_json::from_str(line).expect("a request"))
    }

    #[test]
    fn counters_begin_at_zero_and_keep_what_is_written() {
        let mut store = store("none");
        assert_eq!(ask(&mut store, r#"{"id":1,"f":"read","key":"a"}"#), Ok(0.into()));
        assert_eq!(ask(&mut store, r#"{"id":2,"f":"write","key":"a","value":8}"#), Ok(8.into()));
        assert_eq!(ask(&mut store, r#"{"id":3,"f":"read","key":"a"}"#), Ok(8.into()));
        assert_eq!(ask(&mut store, r#"{"id":4,"f":"read","key":"b"}"#), Ok(0.into()));
    }

    #[test]
    fn the_guard_decides_and_is_counted() {
        let mut store = store("token");
        assert_eq!(ask(&mut store, r#"{"id":1,"f":"write","key":"a","value":8,"token":35}"#), Ok(8.into()));
        let stale = ask(&mut store, r#"{"id":2,"f":"write","key":"a","value":9,"token":33}"#);
        assert_eq!(stale, Err("stale-token: 33 < 35".to_owned()));
        assert_eq!(ask(&mut store, r#"{"id":3,"f":"read","key":"a"}"#), Ok(8.into()), "nothing was written");
        assert_eq!(store.stats, Stats { reads: 1, accepted: 1, rejected: 1 });
    }

    #[test]
    fn nonsense_is_refused() {
        let mut store = store("none");
        assert!(ask(&mut store, r#"{"id":1,"f":"write","key":"a"}"#).is_err());
        assert!(ask(&mut store, r#"{"id":1,"f":"drop","key":"a"}"#).is_err());
    }
}
