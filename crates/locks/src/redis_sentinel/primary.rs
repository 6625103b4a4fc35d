//! A client's way to the primary: asks a Sentinel who it is, connects, and lets it confirm its role. When the connection dies,
//! or a request is not answered, all over again.
//!
//! Source: the Redis documentation, "Sentinel client spec".

use super::configuration::GROUP;
use crate::protocol::Server;
use crate::redis::node::{RedisNode, ServerConnection, dial};
use redis::aio::MultiplexedConnection;
use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// A Sentinel gets this long to connect and to answer, then the next one is asked.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(100);

/// What a client knows from the start.
struct SentinelDirectory {
    data: Vec<Server>,
    sentinels: Vec<Server>,
    /// The Sentinel that answered last is asked first.
    first: AtomicUsize,
}

/// Begins to connect to the primary, and keeps at it.
pub(super) fn open(data: &[Server], sentinels: &[Server]) -> RedisNode {
    let directory =
        SentinelDirectory { data: data.to_vec(), sentinels: sentinels.to_vec(), first: AtomicUsize::new(0) };
    let directory = Arc::new(directory);
    RedisNode::open_by("a primary", move || {
        let directory = directory.clone();
        async move {
            let address = ask_sentinels(&directory).await?;
            let (mut talk, driver) = dial(&address).await?;
            let driver = Box::pin(driver);
            // The connection only moves while its driver does.
            let (talk, driver) = confirmed(&mut talk, driver, &address).await.map(|driver| (talk, driver))?;
            let of_address = directory.data.iter().find(|server| server.address == address);
            let server = of_address.map_or(&*address, |server| &*server.name).into();
            Ok((ServerConnection { talk, server }, driver))
        }
    })
}

/// The address of the primary, as the first Sentinel says that answers.
async fn ask_sentinels(directory: &SentinelDirectory) -> std::io::Result<String> {
    let first = directory.first.load(Ordering::Relaxed);
    for turn in 0..directory.sentinels.len() {
        let place = (first + turn) % directory.sentinels.len();
        let answer = timeout(SENTINEL_TIMEOUT, ask_sentinel(&directory.sentinels[place].address)).await;
        if let Ok(Ok(Some((host, port)))) = answer {
            directory.first.store(place, Ordering::Relaxed);
            return Ok(format!("{host}:{port}"));
        }
    }
    Err(Error::other("no Sentinel says who the primary is"))
}

async fn ask_sentinel(address: &str) -> std::io::Result<Option<(String, u16)>> {
    let (mut talk, driver) = dial(address).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(GROUP);
    tokio::select! {
        answer = question.query_async(&mut talk) => answer.map_err(Error::other),
        () = driver => Err(Error::other("the Sentinel hung up")),
    }
}

/// Lets the server say that it is a primary: the Sentinel may not know the latest, nor the server have heard of it.
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
    match role.first() {
        Some(redis::Value::BulkString(role)) if role == b"master" => Ok(driver),
        other => Err(Error::other(format!("{address} is no primary: {other:?}"))),
    }
}
