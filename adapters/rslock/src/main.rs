//! rslock's `LockManager`: attempts by `lock`. `--acquire`: its `acquire`, which waits by itself, under a
//! time-out. `--extend`: the default, and each lock is extended whenever a third of its TTL has passed.

use fencepost_client::{Env, Error, Grant, Removal};
use rslock::{Lock, LockError, LockManager};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout as within};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads can be started"));

struct RsLock {
    env: Env,
    manager: LockManager,
    held: HashMap<String, Held>,
}

struct Held {
    lock: Arc<Lock>,
    extending: Option<JoinHandle<()>>,
}

impl fencepost_client::Lock for RsLock {
    fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        if has("--acquire") {
            // A dropped future is how a program stops to wait. Its keys stay until their TTL is over.
            let acquired = RUNTIME.block_on(async { within(timeout, self.manager.acquire(key, ttl)).await });
            let Ok(guard) = acquired else { return Ok(None) };
            return Ok(Some(self.granted(key, guard?.lock, ttl)));
        }
        let env = self.env.clone();
        env.poll(timeout, |_| match RUNTIME.block_on(self.manager.lock(key, ttl)) {
            Ok(lock) => Ok(Some(self.granted(key, lock, ttl))),
            // The library found no majority, or was too slow.
            Err(LockError::Unavailable | LockError::TtlExceeded) => Ok(None),
            Err(error) => Err(error.into()),
        })
    }

    fn release(&mut self, key: &str, timeout: Duration) -> Result<Removal, Error> {
        let held = self.held.remove(key).ok_or_else(|| Error::NotHeld("it was not acquired".to_owned()))?;
        held.extending.inspect(JoinHandle::abort);
        RUNTIME.block_on(async { within(timeout, self.manager.unlock(&held.lock)).await })?;
        Ok(Removal::Unknown)
    }
}

impl RsLock {
    fn granted(&mut self, key: &str, lock: Lock, ttl: Duration) -> Grant {
        let validity = Duration::from_millis(lock.validity_time as u64);
        let unique = lock.val.iter().map(|byte| format!("{byte:02x}")).collect();
        let lock = Arc::new(lock);
        let extending = has("--extend").then(|| {
            RUNTIME.spawn(extend(self.env.clone(), self.manager.clone(), lock.clone(), key.to_owned(), ttl))
        });
        self.held.insert(key.to_owned(), Held { lock, extending });
        Grant { unique: Some(unique), validity: Some(validity), ..Grant::default() }
    }
}

/// A process that is over extends nothing.
impl Drop for RsLock {
    fn drop(&mut self) {
        self.held.values().filter_map(|held| held.extending.as_ref()).for_each(JoinHandle::abort);
    }
}

async fn extend(env: Env, manager: LockManager, lock: Arc<Lock>, key: String, ttl: Duration) {
    loop {
        sleep(ttl / 3).await;
        let asked = Instant::now();
        match manager.extend(&lock, ttl).await {
            Ok(_) => env.renewed(&key, asked.elapsed()),
            Err(error) => return env.lost(&key, &error.to_string()),
        }
    }
}

fn has(option: &str) -> bool {
    std::env::args().any(|argument| argument == option)
}

fn main() {
    let can: &[&str] = if has("--extend") { &["lost", "extend"] } else { &[] };
    fencepost_client::run(can, |env: Env| {
        let uris = env.servers.iter().map(|server| format!("redis://{}/", server.address)).collect();
        let mut manager = LockManager::new(uris);
        // One try for each attempt: the kit repeats them, and the time counts from the one that was granted.
        if !has("--acquire") {
            manager.set_retry(1, Duration::from_millis(200));
        }
        Ok(RsLock { env, manager, held: HashMap::new() })
    });
}
