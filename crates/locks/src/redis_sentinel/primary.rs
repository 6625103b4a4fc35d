//! A client's way to the primary: asks a Sentinel who it is, connects, and lets it confirm its role. When the
//! connection dies, or a request is not answered, all over again.
//!
//! Source: the Redis documentation, "Sentinel client spec".

use super::configuration::GROUP;
use crate::protocol::Server;
use crate::redis::node::{RedisDialer, RedisNode, ServerConnection};
use redis::aio::MultiplexedConnection;
use std::io::Error;
use std::io::ErrorKind::PermissionDenied;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// A Sentinel gets this long to connect and to answer, then the next one is asked; three times as long where
/// it speaks TLS.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(100);

/// What a client knows from the start.
struct SentinelDirectory {
    data: Vec<Server>,
    sentinels: Vec<Server>,
    dialer: RedisDialer,
    /// The Sentinel that answered last is asked first.
    first: AtomicUsize,
}

/// Begins to connect to the primary, and keeps at it.
pub(super) fn open(data: &[Server], sentinels: &[Server], dialer: RedisDialer) -> RedisNode {
    let (data, sentinels) = (data.to_vec(), sentinels.to_vec());
    let directory = Arc::new(SentinelDirectory { data, sentinels, dialer, first: AtomicUsize::new(0) });
    RedisNode::open_by("a primary", move || {
        let directory = directory.clone();
        async move {
            let address = ask_sentinels(&directory).await?;
            let server = server_at(&address, &directory.data);
            let (mut talk, driver) = directory.dialer.dial(&server).await?;
            let driver = Box::pin(driver);
            // The connection only moves while its driver does.
            let (talk, driver) = confirmed(&mut talk, driver, &address).await.map(|driver| (talk, driver))?;
            Ok((ServerConnection { talk, server: server.name.into() }, driver))
        }
    })
}

/// The address of the primary, as the first Sentinel says that answers.
async fn ask_sentinels(directory: &SentinelDirectory) -> std::io::Result<String> {
    let first = directory.first.load(Ordering::Relaxed);
    let patience = if directory.dialer.dialer.is_tls() { 3 * SENTINEL_TIMEOUT } else { SENTINEL_TIMEOUT };
    for turn in 0..directory.sentinels.len() {
        let place = (first + turn) % directory.sentinels.len();
        let answer = timeout(patience, ask_sentinel(&directory.sentinels[place], &directory.dialer)).await;
        match answer {
            Ok(Ok(Some((host, port)))) => {
                directory.first.store(place, Ordering::Relaxed);
                return Ok(format!("{host}:{port}"));
            }
            Ok(Err(error)) if error.kind() == PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Err(Error::other("no Sentinel says who the primary is"))
}

async fn ask_sentinel(sentinel: &Server, dialer: &RedisDialer) -> std::io::Result<Option<(String, u16)>> {
    let (mut talk, driver) = dialer.dial(sentinel).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(GROUP);
    tokio::select! {
        answer = question.query_async(&mut talk) => answer.map_err(Error::other),
        () = driver => Err(Error::other("the Sentinel hung up")),
    }
}

/// Lets the server say that it is a primary: the Sentinel may not know the latest, nor the server have heard
/// of it.
async fn confirmed<Driver: Future<Output = ()> + Unpin>(
    talk: &mut MultiplexedConnection,
    mut driver: Driver,
    address: &str,
) -> std::io::Result<Driver> {
    let question = redis::cmd("ROLE");
    let role: Vec<redis::Value> = tokio::select! {
        answer = question.query_async(talk) => answer.map_err(Error::other)?,
        () = &mut driver => return Err(Error::other("the server hung up")),
    };
    match is_primary(&role) {
        true => Ok(driver),
        false => Err(Error::other(format!("{address} is no primary: {:?}", role.first()))),
    }
}

/// Whether a server says of itself, by ROLE, that it is a primary.
fn is_primary(role: &[redis::Value]) -> bool {
    matches!(role.first(), Some(redis::Value::BulkString(role)) if role == b"master")
}

/// The server at an address; named by the address itself, where that is of no server that the client knows.
fn server_at(address: &str, data: &[Server]) -> Server {
    let known = data.iter().find(|server| server.address == address).cloned();
    let (name, address) = (address.to_owned(), address.to_owned());
    known.unwrap_or(Server { name, address, tls_name: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{Value, from_redis_value};

    #[test]
    fn a_primary_is_what_says_so_itself() {
        let word = |word: &str| Value::BulkString(word.as_bytes().to_vec());
        assert!(is_primary(&[word("master"), Value::Int(0), Value::Array(Vec::new())]));
        // What a Sentinel still calls the primary, after another was promoted.
        assert!(!is_primary(&[word("slave"), word("198.18.0.3"), Value::Int(6379)]));
        for other in [word("sentinel"), word("MASTER"), Value::Nil, Value::SimpleString("master".to_owned())]
        {
            assert!(!is_primary(&[other]));
        }
        assert!(!is_primary(&[]));
    }

    #[test]
    fn what_a_sentinel_says_of_the_primary() {
        let said = |value: Value| from_redis_value::<Option<(String, u16)>>(value).map_err(|_| ());
        let words = |words: &[&str]| {
            Value::Array(words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect())
        };
        assert_eq!(said(words(&["198.18.0.3", "6379"])), Ok(Some(("198.18.0.3".to_owned(), 6379))));
        assert_eq!(said(Value::Nil), Ok(None), "it knows no such group");
        assert_eq!((said(words(&["198.18.0.3"])), said(words(&["198.18.0.3", "x"]))), (Err(()), Err(())));
        let address = "198.18.0.3:6379".to_owned();
        let data = [Server { name: "n2".to_owned(), address, tls_name: None }];
        assert_eq!(server_at("198.18.0.3:6379", &data).name, "n2");
        assert_eq!(server_at("198.18.0.9:6379", &data).name, "198.18.0.9:6379");
    }
}
