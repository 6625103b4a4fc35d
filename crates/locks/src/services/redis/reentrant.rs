//! `redis-reentrant`: a hash with one field, the holder's, whose value is how often it holds the lock.
//! Source: Redisson's `RedissonLock` (HINCRBY, PEXPIRE, DEL at zero), and usual mistakes.

use super::decisions::GivenBack;
use super::node::NodeConnection;
use super::shared::{Asked, REDIS_SERVER, Shares, SharesRecipe};
use crate::capabilities::Capabilities;
use crate::client::client_clock::whole_millis;
use crate::definition::LockDefinition;
use crate::options::ReentryCount;
use crate::reply::Reply;
use async_trait::async_trait;
use fencepost_history::LockKind;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-reentrant",
    about: "a reentrant lock on one Redis server: a hash that counts how often its holder has to release it",
    claims: "exclusion until the last release while the server keeps its data and its clock and holders stop within the TTL; ownership; progress; no fencing",
    service: &REDIS_SERVER,
    recipe: &SharesRecipe { lock: "redis-reentrant", shares: |options| options.reentry },
    options: &["reentry"],
    capabilities: |_| Capabilities { kind: LockKind::Reentrant, validity: true, ..Capabilities::NONE },
};

const HOLDER: &str = "holder";
const PARTS: [&str; 1] = [HOLDER];

const TAKE: &str = r"
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
";

/// What is gone is not taken anew: another may have held it meanwhile.
const TAKE_AGAIN: &str = r"
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[3])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
";

/// 0: it is not this holder's; 1: nothing is left of it; 2: it is still held.
const GIVE_BACK: &str = r"
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 2 end
return redis.call('DEL', KEYS[1])
";

const TAKE_OUT: &str =
    "return redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('DEL', KEYS[1]) or 0";

#[async_trait]
impl Shares for ReentryCount {
    async fn ask(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool> {
        let arguments = [asked.value, &whole_millis(asked.ttl).to_string()];
        connection.run(TAKE, (asked.key, &PARTS), &arguments, asked.until).await
    }

    async fn take_out(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool> {
        connection.run(TAKE_OUT, (asked.key, &PARTS), &[asked.value], asked.until).await
    }

    async fn take_again(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Option<Reply<bool>> {
        let counts = match self {
            ReentryCount::Counted | ReentryCount::ReleaseAll => "1",
            ReentryCount::Uncounted => "0",
            ReentryCount::Twice => "2",
        };
        let arguments = [asked.value, &whole_millis(asked.ttl).to_string(), counts];
        Some(connection.run(TAKE_AGAIN, (asked.key, &PARTS), &arguments, asked.until).await)
    }

    async fn give_back(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<GivenBack> {
        let script = if *self == ReentryCount::ReleaseAll { TAKE_OUT } else { GIVE_BACK };
        let keys = std::iter::once(format!("{}:{HOLDER}", asked.key));
        let left = connection.count(script, keys, &[asked.value], asked.until).await;
        left.map(|left| match left {
            0 => GivenBack::Gone,
            1 => GivenBack::Removed,
            _ => GivenBack::Less,
        })
    }
}
