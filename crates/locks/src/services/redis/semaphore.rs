//! `redis-semaphore`: holders and waiters in the order of a counter, in two sorted sets. Source: Josiah
//! Carlson, "Redis in Action" (2013), section 6.3, "Counting semaphores": the fair semaphore, here in one
//! script and by the server's clock; and the two before it in that section, which let in too many.

use super::decisions::after_look;
use super::node::NodeConnection;
use super::shared::{Asked, REDIS_SERVER, Shares, SharesRecipe};
use crate::capabilities::Capabilities;
use crate::client::client_clock::whole_millis;
use crate::definition::LockDefinition;
use crate::options::SemaphoreOrder;
use crate::recipe::Share;
use crate::reply::Reply;
use async_trait::async_trait;
use fencepost_history::LockKind;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-semaphore",
    about: "a semaphore on one Redis server: sorted sets of holders and waiters, in the order of a counter",
    claims: "exclusion beyond its permits while the server keeps its data and its clock and holders stop within the TTL; progress; no fencing",
    service: &REDIS_SERVER,
    recipe: &SharesRecipe { lock: "redis-semaphore", shares: |options| options.semaphore_order },
    options: &["semaphore-order"],
    capabilities: |_| Capabilities { kind: LockKind::Semaphore, validity: true, ..Capabilities::NONE },
};

/// Removes who is over by the server's clock, and sets `now`.
const PURGE: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('ZREM', KEYS[2], gone)
end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
";

/// A place in the order is kept while its process waits, and no later one comes before it.
const IN_ORDER: &str = r"
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[3]), ARGV[1])
end
return redis.call('ZRANK', KEYS[2], ARGV[1]) < tonumber(ARGV[2]) and 1 or 0
";

/// The counter was read in a request before: a process with a smaller one can still come, and is let in, too.
const COUNTED_BEFORE: &str = r"
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
if redis.call('ZRANK', KEYS[2], ARGV[1]) < tonumber(ARGV[2]) then return 1 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 0
";

/// Order and age by the clocks of clients: who comes from a clock that is behind stands before all others.
const BY_CLOCKS: &str = r"
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[4] - ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[4], ARGV[1])
if redis.call('ZRANK', KEYS[1], ARGV[1]) < tonumber(ARGV[2]) then return 1 end
redis.call('ZREM', KEYS[1], ARGV[1])
return 0
";

const TAKE_OUT: &str = r"
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
";

const COUNTER: &str = "counter";
const PARTS: [&str; 3] = ["times", "order", COUNTER];

#[async_trait]
impl Shares for SemaphoreOrder {
    fn queues(&self) -> bool {
        *self == SemaphoreOrder::Counter
    }

    async fn ask(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool> {
        let Asked { key, value, share, ttl, until, .. } = *asked;
        let permits = if let Some(Share::Permit { of }) = share { of } else { 1 };
        let (permits, ttl_ms) = (permits.to_string(), whole_millis(ttl).to_string());
        let (script, fourth) = match self {
            SemaphoreOrder::Counter => (format!("{PURGE}{IN_ORDER}"), 0),
            SemaphoreOrder::CounterBefore => {
                let counted = connection.increment(&format!("{key}:{COUNTER}"), until).await;
                match after_look(counted) {
                    Ok(counted) => (format!("{PURGE}{COUNTED_BEFORE}"), counted),
                    Err(failed) => return failed,
                }
            }
            SemaphoreOrder::Clocks => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                (BY_CLOCKS.to_owned(), whole_millis(now))
            }
        };
        let arguments = [value, &permits, &ttl_ms, &fourth.to_string()];
        connection.run(&script, (key, &PARTS), &arguments, until).await
    }

    async fn take_out(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool> {
        connection.run(TAKE_OUT, (asked.key, &PARTS), &[asked.value], asked.until).await
    }
}
