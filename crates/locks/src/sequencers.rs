//! The storage's way to the lock service of a lock, to check sequencers.

use crate::error::ClientError;
use crate::protocol::Server;
use crate::registry::find;
use fencepost_storage::Sequencers;

/// Connects to the servers (`host:port`) of the lock of that name.
///
/// # Errors
/// There is no such lock, it gives no sequencers, or its servers cannot be reached: one sentence.
pub async fn connect_sequencers(lock: &str, servers: &[String]) -> Result<Box<dyn Sequencers>, ClientError> {
    let found = find(lock).ok_or_else(|| ClientError::BadHello(format!("unknown lock `{lock}`")))?;
    let server = |address: &String| Server { address: address.clone(), ..Server::default() };
    let servers: Vec<Server> = servers.iter().map(server).collect();
    found.sequencers(&servers).await
}
