//! Servers that exist without a run: what Fencepost itself does on them, from the machine that it runs on.

use crate::access::Access;
use crate::dialer::{Dialer, place};
use crate::protocol::Server;
use async_trait::async_trait;
use std::time::Duration;

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

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn dialer(access: &Access) -> Result<Dialer, String> {
    Dialer::new(Some(access)).map_err(|error| error.to_string())
}

/// Of a server that is silent for longer than [`PATIENCE`].
pub(crate) fn no_answer(server: &str) -> String {
    let patience_s = PATIENCE.as_secs();
    format!(
        "does not answer within {patience_s} s; is it {server}, and does it speak TLS where its URL says so?"
    )
}

pub(crate) fn lacks_rights(words: &str) -> String {
    format!(
        "does not let this user do what the lock needs ({words}); see docs/your-own-cluster.md for the rights"
    )
}

pub(crate) fn no_login(words: &str) -> String {
    format!("does not take the user and password that it was given ({words})")
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
