//! What the recipes on PostgreSQL share.

use super::server::PostgresServer;
use crate::error::{ClientError, OptionError, bad_option};
use crate::notices::Notices;
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// Makes the lock as one process sees it, on this server.
type NewLock = fn(Arc<PostgresServer>, Notices) -> Box<dyn Lock>;

/// A way to lock in PostgreSQL.
pub(super) struct PostgresRecipe {
    /// The shortest TTL within which the server can notice that a holder is gone.
    pub(super) ttl_min: Duration,
    pub(super) lock: NewLock,
}

#[async_trait]
impl Recipe for PostgresRecipe {
    fn check_ttl(&self, ttl: Duration) -> Result<(), OptionError> {
        if ttl >= self.ttl_min {
            return Ok(());
        }
        bad_option(
            "ttl",
            format!(
                "PostgreSQL cannot notice within {} ms that a holder is gone; use --ttl {}ms or more",
                ttl.as_millis(),
                self.ttl_min.as_millis()
            ),
        )
    }

    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, ClientError> {
        Ok(Box::new(PostgresSession { server: Arc::new(PostgresServer::of(hello).await?), lock: self.lock }))
    }
}

/// What the processes of a client share: only where the server is. Locks belong to connections, so each
/// process has one of its own.
struct PostgresSession {
    server: Arc<PostgresServer>,
    lock: NewLock,
}

impl Session for PostgresSession {
    fn lock(&self, _process: u64, notices: Notices) -> Box<dyn Lock> {
        (self.lock)(self.server.clone(), notices)
    }
}
