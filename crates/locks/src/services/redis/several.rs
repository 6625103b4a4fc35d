//! `redis-several`: one key for each name, as of `redis-single`, all set or none of them by one script.
//! Source: the Redis documentation, "Distributed locks with Redis", and `MSETNX`, which sets several keys or
//! none, but knows no TTL; and the two ways in which programs take one name after the other instead.

use super::decisions::{GivenBack, after_look};
use super::node::NodeConnection;
use super::shared::{Asked, REDIS_SERVER, Shares, SharesRecipe};
use crate::capabilities::Capabilities;
use crate::client::client_clock::whole_millis;
use crate::definition::LockDefinition;
use crate::options::TakeNames;
use crate::reply::Reply;
use async_trait::async_trait;
use fencepost_history::LockKind;
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redis-several",
    about: "a lock on several names on one Redis server: a script sets a key for each of them, or none",
    claims: "exclusion on each name while the server keeps its data and its clock and holders stop within the TTL; ownership; progress; no fencing",
    service: &REDIS_SERVER,
    recipe: &SharesRecipe { lock: "redis-several", shares: |options| options.take_names },
    options: &["take-names"],
    capabilities: |_| Capabilities { kind: LockKind::Several, validity: true, ..Capabilities::NONE },
};

const TAKE_ALL: &str = r"
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then return 0 end
end
for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1], 'PX', ARGV[2]) end
return 1
";

/// How many of them were this holder's.
const GIVE_BACK: &str = r"
local removed = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then removed = removed + redis.call('DEL', key) end
end
return removed
";

/// How long a process rests that waits for one name while it has others.
const REST: Duration = Duration::from_millis(10);

fn keys<'a>(names: &'a [&str]) -> impl ExactSizeIterator<Item = String> + use<'a> {
    names.iter().map(|name| (*name).to_owned())
}

async fn take(connection: &NodeConnection<'_>, names: &[&str], asked: &Asked<'_>) -> Reply<bool> {
    let arguments = [asked.value, &whole_millis(asked.ttl).to_string()];
    let taken = connection.count(TAKE_ALL, keys(names), &arguments, asked.until).await;
    taken.map(|taken| taken > 0)
}

#[async_trait]
impl Shares for TakeNames {
    async fn ask(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool> {
        if *self == TakeNames::AllOrNone {
            return take(connection, asked.names, asked).await;
        }
        for at in 0..asked.names.len() {
            loop {
                match take(connection, &asked.names[at..=at], asked).await {
                    Reply::Answer(true) => break,
                    Reply::Answer(false) if *self == TakeNames::LeaveHalf => return Reply::Answer(false),
                    Reply::Answer(false) if Instant::now() + REST < asked.until => sleep(REST).await,
                    Reply::Answer(false) => {
                        let given_back = connection
                            .count(GIVE_BACK, keys(&asked.names[..at]), &[asked.value], asked.until + REST)
                            .await;
                        // Without an answer they are taken out by the loop of attempts.
                        return match after_look(given_back) {
                            Ok(_) => Reply::Answer(false),
                            Err(Reply::Refused(why)) => Reply::Unknown(why),
                            Err(reply) => reply,
                        };
                    }
                    // The names before it are taken.
                    Reply::Refused(why) | Reply::Unsent(why) if at > 0 => return Reply::Unknown(why),
                    reply => return reply,
                }
            }
        }
        Reply::Answer(true)
    }

    async fn take_out(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<bool> {
        let removed = connection.count(GIVE_BACK, keys(asked.names), &[asked.value], asked.until).await;
        removed.map(|removed| removed > 0)
    }

    async fn give_back(&self, connection: &NodeConnection<'_>, asked: &Asked<'_>) -> Reply<GivenBack> {
        let removed = connection.count(GIVE_BACK, keys(asked.names), &[asked.value], asked.until).await;
        // Of a set of which one name was gone, the holder had lost the lock.
        let is_whole = |removed: i64| usize::try_from(removed) == Ok(asked.names.len());
        removed.map(|removed| if is_whole(removed) { GivenBack::Removed } else { GivenBack::Gone })
    }
}
