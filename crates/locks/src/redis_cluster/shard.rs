//! A client's way to the primary of the locks' shard: asks a server which one it is, connects, and lets
//! that confirm it. When the connection dies, a request is not answered, or the server says that the key
//! has moved, all over again.
//!
//! Source: the Redis documentation, "Redis cluster specification", section "Redirection and resharding".

use super::configuration::{SLOT, TAG};
use crate::protocol::Server;
use crate::redis::node::{RedisDialer, RedisNode, ServerConnection};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};
use std::io::Error;
use std::io::ErrorKind::PermissionDenied;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// A server gets this long to connect and to answer, then the next one is asked; three times as long where
/// it speaks TLS.
const TIMEOUT: Duration = Duration::from_millis(100);

/// What a client knows from the start.
struct Directory {
    servers: Vec<Server>,
    dialer: RedisDialer,
    /// The server that is asked first: the one that was right last.
    first: AtomicUsize,
}

/// Begins to connect to the primary, and keeps at it.
pub(super) fn open(servers: &[Server], dialer: RedisDialer) -> RedisNode {
    let directory = Arc::new(Directory { servers: servers.to_vec(), dialer, first: AtomicUsize::new(0) });
    let node = RedisNode::open_by("the primary of the shard", move || {
        let directory = directory.clone();
        async move {
            let (address, asked) = ask_servers(&directory).await?;
            let server = directory.server_at(&address);
            let dialled = confirmed(&directory, &server).await;
            // One that was wrong is the last to be asked again.
            let first = if dialled.is_ok() { asked } else { asked + 1 };
            directory.first.store(first % directory.servers.len(), Ordering::Relaxed);
            dialled
        }
    });
    node.with_prefix(TAG)
}

impl Directory {
    /// The server at an address; named by the address itself, where that is of no server that the client
    /// knows.
    fn server_at(&self, address: &str) -> Server {
        let known = self.servers.iter().find(|server| server.address == address).cloned();
        let (name, address) = (address.to_owned(), address.to_owned());
        known.unwrap_or(Server { name, address, tls_name: None })
    }
}

/// The address of the primary, as the first server says that answers; and the place of that server.
async fn ask_servers(directory: &Directory) -> std::io::Result<(String, usize)> {
    let first = directory.first.load(Ordering::Relaxed);
    let patience = if directory.dialer.dialer.is_tls() { 3 * TIMEOUT } else { TIMEOUT };
    for turn in 0..directory.servers.len() {
        let place = (first + turn) % directory.servers.len();
        match timeout(patience, ask_server(&directory.servers[place], &directory.dialer)).await {
            Ok(Ok(Some(address))) => return Ok((address, place)),
            Ok(Err(error)) if error.kind() == PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Err(Error::other("no server says who the primary of the shard is"))
}

async fn ask_server(server: &Server, dialer: &RedisDialer) -> std::io::Result<Option<String>> {
    let (mut talk, driver) = dialer.dial(server).await?;
    tokio::select! {
        answer = primary_by(&mut talk) => answer,
        () = driver => Err(Error::other("the server hung up")),
    }
}

/// Who the primary is, in the eyes of the server at the other end.
async fn primary_by(talk: &mut MultiplexedConnection) -> std::io::Result<Option<String>> {
    let slots: Vec<Value> =
        redis::cmd("CLUSTER").arg("SLOTS").query_async(talk).await.map_err(Error::other)?;
    Ok(slots.into_iter().find_map(primary_of_slot))
}

/// The primary, by an entry of `CLUSTER SLOTS` in which the slot lies: first and last slot, then the servers,
/// the primary first.
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
    directory: &Directory,
    server: &Server,
) -> std::io::Result<(ServerConnection, impl Future<Output = ()> + use<>)> {
    let (mut talk, driver) = directory.dialer.dial(server).await?;
    let mut driver = Box::pin(driver);
    // The connection only moves while its driver does.
    let said = tokio::select! {
        answer = primary_by(&mut talk) => answer?,
        () = &mut driver => return Err(Error::other("the server hung up")),
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
