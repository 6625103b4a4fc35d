//! Servers that exist without a run: what Fencepost itself does on them, from the machine that it runs on.

use crate::access::Access;
use crate::dialer::{Dialer, place};
use crate::protocol::Server;
use async_trait::async_trait;

/// A service whose servers exist without the run. Only the run's prefix is touched.
#[async_trait]
pub trait ExistingService: Send + Sync {
    /// A server's name and version (`redis-server 7.0.15`). Errors: silent, refused, or unfit.
    async fn version(&self, server: &Server, access: &Access) -> Result<String, String>;
    /// Sets a key and deletes it, as the recipe does. Errors: it is read-only, or the user lacks a right.
    async fn try_write(&self, server: &Server, access: &Access, key: &str) -> Result<(), String>;
    /// Removes all keys with this prefix. Gives their number.
    async fn remove(&self, server: &Server, access: &Access, prefix: &str) -> Result<u64, String>;
    /// Whether the servers share their keys, so that what is removed on one is removed on all.
    fn shares_keys(&self) -> bool;
}

/// Why a server that failed `otherwise` cannot be reached: a mistake in how it is reached explains more.
pub(crate) async fn explained(dialer: &Dialer, server: &Server, otherwise: String) -> String {
    match dialer.check(std::slice::from_ref(server)).await {
        Err(error) => rest(server, &error.to_string()),
        Ok(()) => otherwise,
    }
}

/// A sentence about a server without the server that it begins with.
pub(crate) fn rest(server: &Server, sentence: &str) -> String {
    sentence.strip_prefix(&place(server)).unwrap_or(sentence).trim_start().to_owned()
}
