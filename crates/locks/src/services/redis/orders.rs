//! Faults that a Redis server injects into itself when it is ordered to, as operators order it, too.

use super::ask::give_order as ask;
use crate::service::ServiceOrders;
use fencepost_cluster::{ClusterError, Node};
use serde_json::{Value, json};
use std::sync::Arc;

/// An error, and the commands that make a server answer writes with it and that end it.
struct Refused {
    reply: &'static str,
    begin: &'static [&'static str],
    end: &'static [&'static str],
}

/// Fewer replicas than it needs, as when they are gone: more than any server here has.
const NOREPLICAS: Refused = Refused {
    reply: "noreplicas",
    begin: &["CONFIG", "SET", "min-replicas-to-write", "9"],
    end: &["CONFIG", "SET", "min-replicas-to-write", "0"],
};

const OOM: Refused = Refused {
    reply: "oom",
    begin: &["CONFIG", "SET", "maxmemory", "1"],
    end: &["CONFIG", "SET", "maxmemory", "0"],
};

/// A replica, as after an unnoticed failover. Its primary does not exist, so it keeps its data.
const READONLY: Refused =
    Refused { reply: "readonly", begin: &["REPLICAOF", "127.0.0.1", "1"], end: &["REPLICAOF", "NO", "ONE"] };

/// Of servers that know nothing of each other.
pub(crate) const INDEPENDENT: ServiceOrders = ServiceOrders {
    names: &[
        "error-replies:readonly",
        "error-replies:oom",
        "error-replies:noreplicas",
        "script-flush:",
        "evict:allkeys-lru",
        "evict:allkeys-lfu",
        "evict:allkeys-random",
        "evict:volatile-lru",
        "evict:volatile-lfu",
        "evict:volatile-random",
        "evict:volatile-ttl",
    ],
    begin: |node, order| Box::pin(begin(node, order)),
    end: |node, order| Box::pin(end(node, order)),
};

async fn begin(node: &Arc<dyn Node>, name: &str) -> Result<(Value, bool), ClusterError> {
    match name.split_once(':') {
        Some(("script-flush", _)) => flush_scripts(node).await,
        Some(("evict", policy)) => evict(node, policy).await,
        _ => {
            let refused = find(name)?;
            order(node, refused.begin).await?;
            let answer = refusal(node).await?;
            let is_it = answer.as_ref().is_some_and(|it| it.to_lowercase().contains(refused.reply));
            Ok((json!({"answers": answer}), is_it))
        }
    }
}

async fn end(node: &Arc<dyn Node>, name: &str) -> Result<Value, ClusterError> {
    match name.split_once(':') {
        Some(("script-flush", _)) => Ok(json!({"scripts": info(node, "memory", SCRIPTS).await?})),
        Some(("evict", _)) => empty(node).await,
        _ => {
            order(node, find(name)?.end).await?;
            Ok(json!({"answers": refusal(node).await?}))
        }
    }
}

fn find(name: &str) -> Result<&'static Refused, ClusterError> {
    let reply = name.strip_prefix("error-replies:");
    let found = [&READONLY, &OOM, &NOREPLICAS].into_iter().find(|refused| Some(refused.reply) == reply);
    found.ok_or_else(|| ClusterError::new(format!("a Redis server has no order {name}")))
}

async fn order(node: &Arc<dyn Node>, command: &[&str]) -> Result<(), ClusterError> {
    answer(node, command, |answer| answer.starts_with("OK").then_some(())).await
}

/// What a server answers, as `read` takes it. Errors: it answers something else.
async fn answer<T>(
    node: &Arc<dyn Node>,
    command: &[&str],
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, ClusterError> {
    let said = ask(node, command).await?.join(" ");
    read(&said).ok_or_else(|| {
        ClusterError::new(format!("{} answered {} with: {said}", node.name(), command.join(" ")))
    })
}

async fn refusal(node: &Arc<dyn Node>) -> Result<Option<String>, ClusterError> {
    // A key of its own, which is gone a millisecond later; in a cluster, one of the locks' shard.
    let answer = ask(node, &["SET", "{lock}:fencepost-probe", "1", "PX", "1"]).await?.join(" ");
    Ok((!answer.starts_with("OK")).then_some(answer))
}

const SCRIPTS: &str = "number_of_cached_scripts";

async fn info(node: &Arc<dyn Node>, section: &str, field: &str) -> Result<u64, ClusterError> {
    let lines = ask(node, &["INFO", section]).await?;
    let number = lines.iter().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.parse().ok());
    let why = || if lines.is_empty() { "did not answer in time with" } else { "does not say" };
    number.ok_or_else(|| ClusterError::new(format!("{} {} its {field}", node.name(), why())))
}

/// Others' scripts must have been there. One of its own shows the flush: clients may load theirs again.
async fn flush_scripts(node: &Arc<dyn Node>) -> Result<(Value, bool), ClusterError> {
    let digest = answer(node, &["SCRIPT", "LOAD", "return 'fencepost'"], |digest| {
        (digest.len() == 40).then(|| digest.to_owned())
    });
    let digest = digest.await?;
    let is_there = async || answer(node, &["SCRIPT", "EXISTS", &digest], |it| it.parse::<u8>().ok()).await;
    let (others, before) = (info(node, "memory", SCRIPTS).await? - 1, is_there().await?);
    order(node, &["SCRIPT", "FLUSH"]).await?;
    let after = is_there().await?;
    let seen = json!({"scripts_before": others, "scripts": info(node, "memory", SCRIPTS).await?});
    Ok((seen, others > 0 && (before, after) == (1, 0)))
}

/// Keys of others, and the bytes of each. They have a TTL, so that volatile policies count them too.
const FILLERS: u64 = 200;
const FILLER_BYTES: u64 = 10_000;
const FILL: &str = "for i = 1, ARGV[1] do \
    redis.call('SET', KEYS[1] .. i, string.rep('x', ARGV[2]), 'EX', 3600) end return 'OK'";
/// How many of them are there, and how many keys the server has evicted: at one moment.
const COUNT: &str = "local left = 0 for i = 1, ARGV[1] do left = left + redis.call('EXISTS', KEYS[1] .. i) end \
    return left .. ' ' .. string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)')";
const DROP: &str = "for i = 1, ARGV[1] do redis.call('DEL', KEYS[1] .. i) end return 'OK'";

/// So often memory is filled: each time the server drops nine of ten keys, by its own choice.
const ROUNDS: u32 = 5;

async fn fillers(node: &Arc<dyn Node>, script: &str) -> Result<(), ClusterError> {
    let (count, bytes) = (FILLERS.to_string(), FILLER_BYTES.to_string());
    order(node, &["EVAL", script, "1", "fencepost-filler:", &count, &bytes]).await
}

async fn count(node: &Arc<dyn Node>) -> Result<(u64, u64), ClusterError> {
    let count = FILLERS.to_string();
    let command = ["EVAL", COUNT, "1", "fencepost-filler:", &count];
    let read = |text: &str| {
        text.split_once(' ').and_then(|(left, all)| Some((left.parse().ok()?, all.parse().ok()?)))
    };
    answer(node, &command, read).await
}

/// Took effect where others' keys were evicted: the server counts all, and its own are counted here.
async fn evict(node: &Arc<dyn Node>, policy: &str) -> Result<(Value, bool), ClusterError> {
    order(node, &["CONFIG", "SET", "maxmemory-policy", policy]).await?;
    let (_, before) = count(node).await?;
    let (mut own, mut others, mut rounds) = (0, 0, 0);
    while others == 0 && rounds < ROUNDS {
        rounds += 1;
        order(node, &["CONFIG", "SET", "maxmemory", "0"]).await?;
        fillers(node, FILL).await?;
        let room = info(node, "memory", "used_memory").await?.saturating_sub(FILLERS * FILLER_BYTES * 9 / 10);
        order(node, &["CONFIG", "SET", "maxmemory", &room.to_string()]).await?;
        let (left, evicted) = count(node).await?;
        own += FILLERS - left;
        others = (evicted - before).saturating_sub(own);
    }
    let seen =
        json!({"policy": policy, "rounds": rounds, "evicted": own + others, "evicted_of_others": others});
    Ok((seen, others > 0))
}

async fn empty(node: &Arc<dyn Node>) -> Result<Value, ClusterError> {
    order(node, &["CONFIG", "SET", "maxmemory", "0"]).await?;
    order(node, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await?;
    fillers(node, DROP).await?;
    Ok(json!({"fillers": count(node).await?.0}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_can_be_ordered_and_no_other() {
        let replies =
            |orders: ServiceOrders| orders.names.iter().filter(|name| name.starts_with("error-replies"));
        assert!(replies(INDEPENDENT).all(|name| find(name).is_ok()));
        assert!(find("error-replies:loading").is_err() && find("oom").is_err());
    }
}
