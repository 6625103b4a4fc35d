//! A client's way to the primary of the locks' shard: asks a server for it, connects, and lets that confirm
//! it; again when the connection dies, a request is not answered, or the key has moved. Source: the Redis
//! documentation, "Redis cluster specification", section "Redirection and resharding".

use super::configuration::{SLOT, TAG};
use crate::protocol::Server;
use crate::services::redis::in_turn::{InTurn, hung_up, server_at};
use crate::services::redis::node::{RedisDialer, RedisNode, ServerConnection};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};
use std::io::Error;
use std::sync::Arc;

pub(super) fn open(servers: &[Server], dialer: RedisDialer) -> RedisNode {
    let directory = Arc::new(InTurn::new(servers, dialer));
    let node = RedisNode::open_by("the primary of the shard", move || {
        let directory = directory.clone();
        async move {
            let found = directory.ask(async |talk| primary_by(talk).await).await?;
            let (address, asked) =
                found.ok_or_else(|| Error::other("no server says who the primary of the shard is"))?;
            let server = server_at(&address, &directory.servers);
            let dialled = confirmed(&directory, &server).await;
            // One that was wrong is the last to be asked again.
            directory.begin_with(if dialled.is_ok() { asked } else { asked + 1 });
            dialled
        }
    });
    node.with_prefix(TAG)
}

/// Who the primary is, in the eyes of the server at the other end.
async fn primary_by(talk: &mut MultiplexedConnection) -> std::io::Result<Option<String>> {
    let slots: Vec<Value> =
        redis::cmd("CLUSTER").arg("SLOTS").query_async(talk).await.map_err(Error::other)?;
    Ok(slots.into_iter().find_map(primary_of_slot))
}

/// The primary in an entry of `CLUSTER SLOTS` with the slot: first and last slot, servers, the primary first.
fn primary_of_slot(entry: Value) -> Option<String> {
    let Value::Array(entry) = entry else { return None };
    let mut entry = entry.into_iter();
    let mut next = || u16::from_redis_value(entry.next()?).ok();
    let (first, last) = (next()?, next()?);
    if !(first..=last).contains(&SLOT) {
        return None;
    }
    let Value::Array(primary) = entry.next()? else { return None };
    let mut primary = primary.into_iter();
    let host = String::from_redis_value(primary.next()?).ok()?;
    let port = u16::from_redis_value(primary.next()?).ok()?;
    Some(format!("{host}:{port}"))
}

/// Connects, and lets the server say itself that it is the primary: another may not know the latest.
async fn confirmed(
    directory: &InTurn,
    server: &Server,
) -> std::io::Result<(ServerConnection, impl Future<Output = ()> + use<>)> {
    let (mut talk, driver) = directory.dialer.dial(server).await?;
    let mut driver = Box::pin(driver);
    // The connection only moves while its driver does.
    let said = tokio::select! {
        answer = primary_by(&mut talk) => answer?,
        () = &mut driver => return Err(hung_up()),
    };
    match said.as_deref() == Some(&server.address) {
        true => Ok((ServerConnection { talk, server: server.name.as_str().into() }, driver)),
        false => Err(Error::other(format!("{} is no primary of the shard: it names {said:?}", server.name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_is_the_first_server_of_the_range_that_has_the_slot() {
        let word = |word: &str| Value::BulkString(word.as_bytes().to_vec());
        let server =
            |host: &str| Value::Array(vec![word(host), Value::Int(6379), word("id"), Value::Array(vec![])]);
        let entry = |first, last| {
            let range = [Value::Int(first), Value::Int(last)];
            Value::Array(range.into_iter().chain(["198.18.0.3", "198.18.0.6"].map(server)).collect())
        };
        let primary = primary_of_slot(entry(5461, 10921));
        assert_eq!(primary.as_deref(), Some("198.18.0.3:6379"));
        assert_eq!(primary_of_slot(entry(0, 5460)), None);
        let without = Value::Array(vec![Value::Int(5461), Value::Int(10921)]);
        assert_eq!(primary_of_slot(without), None);
    }
}
