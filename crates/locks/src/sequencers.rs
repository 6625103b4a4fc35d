//! The storage's way to the lock service of a lock, to check sequencers.

use crate::access::Access;
use crate::error::ClientError;
use crate::protocol::Server;
use crate::services::find;
use fencepost_storage::{Sequencers, StorageSetup};
use std::path::Path;

/// Connects to the servers of the storage's lock. Errors: no such lock, no sequencers, no connection.
pub async fn connect_sequencers(setup: &StorageSetup) -> Result<Box<dyn Sequencers>, ClientError> {
    let lock = &setup.lock;
    let found = find(lock).ok_or_else(|| ClientError::BadHello(format!("unknown lock `{lock}`")))?;
    let server = |address: &String| Server { address: address.clone(), ..Server::default() };
    let servers: Vec<Server> = setup.servers.iter().map(server).collect();
    let access = setup.access.as_deref().map(read).transpose()?;
    found.sequencers(&servers, access.as_ref()).await
}

fn read(file: &Path) -> Result<Access, ClientError> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
    let access = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    access.map_err(|error| ClientError::Environment(format!("cannot read {}: {error}", file.display())))
}
