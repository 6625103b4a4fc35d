//! `redis-read-write`: a key for the writer, and a sorted set of readers with their ends. A writer needs that
//! neither is there, a reader that there is no writer. One script looks and takes, by the server's clock.
//! Source: Redisson's `RReadWriteLock`, whose scripts keep a mode and the readers under one lock.

use super::decisions::after_look;
use super::node::NodeConnection;
use super::shared::{Asked, REDIS_SERVER, Shares, SharesRecipe};
use crate::capabilities::Capabilities;
use crate::client::client_clock::whole_millis;
use crate::definition::LockDefinition;
use crate::options::LookAndTake;
use crate::reply::Reply;
use async_trait::async_trait;
use fencepost_history::LockKind;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-read-write",
    about: "a read-write lock on one Redis server: a key for the writer, a sorted set of readers, and a script that looks and takes",
    claims: "exclusion of writers while the server keeps its data and its clock and holders stop within the TTL; ownership; progress of readers; no fencing",
    service: &REDIS_SERVER,
    recipe: &SharesRecipe { lock: "redis-read-write", shares: |options| options.look_and_take },
    options: &["look-and-take"],
    capabilities: |_| Capabilities { kind: LockKind::ReadWrite, validity: true, ..Capabilities::NONE },
};

const PARTS: [&str; 2] = ["writer", "readers"];

/// Sets `now`, and ends if the lock cannot be had. Readers that are over do not count.
const LOOK: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
";
const NO_READERS: &str = "if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end\n";
const FREE: &str = "return 1";

const TAKE_AS_WRITER: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0";
const TAKE_AS_READER: &str = r"
local time = redis.call('TIME')
return redis.call('ZADD', KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2], ARGV[1])
";

const LEAVE_AS_WRITER: &str =
    "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";
const LEAVE_AS_READER: &str = "return redis.call('ZREM', KEYS[2], ARGV[1])";

#[async_trait]
impl Shares for LookAndTake {
    async fn ask(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool> {
        let Asked { key, value, share, ttl, until, .. } = *asked;
        let (look, take) = match share {
            None => (format!("{LOOK}{NO_READERS}"), TAKE_AS_WRITER),
            Some(_) => (LOOK.to_owned(), TAKE_AS_READER),
        };
        let run = async |script: &str| {
            let arguments = [value, &whole_millis(ttl).to_string()];
            connection.run(script, (key, &PARTS), &arguments, until).await
        };
        match self {
            // In a block of its own, since it has the same names.
            LookAndTake::Together => run(&format!("do {look} end\n{take}")).await,
            LookAndTake::Apart => match after_look(run(&format!("{look}{FREE}")).await) {
                Ok(true) => run(take).await,
                Ok(false) => Reply::Answer(false),
                Err(failed) => failed,
            },
        }
    }

    async fn take_out(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool> {
        let script = if asked.share.is_some() { LEAVE_AS_READER } else { LEAVE_AS_WRITER };
        connection.run(script, (asked.key, &PARTS), &[asked.value], asked.until).await
    }
}
