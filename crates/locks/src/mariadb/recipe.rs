//! What the recipes on MariaDB share.

use super::server::MariaDbServer;
use crate::error::{ClientError, OptionError, bad_option};
use crate::notices::Notices;
use crate::options::Options;
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use async_trait::async_trait;
use fencepost_history::Seed;
use std::sync::Arc;
use std::time::Duration;

/// What the processes of a client share: where the server is, and the options. Each process has a connection
/// of its own, since locks belong to connections.
pub(super) struct MariaDbClient {
    pub(super) server: MariaDbServer,
    pub(super) options: Options,
    /// Its name.
    pub(super) client: String,
    pub(super) seed: Seed,
}

/// Makes the lock as one process uses it.
type NewLock = fn(Arc<MariaDbClient>, process: u64, Notices) -> Box<dyn Lock>;

/// A way to lock in MariaDB.
pub(super) struct MariaDbRecipe {
    /// The shortest TTL within which the server can notice that a holder is gone.
    pub(super) ttl_min: Duration,
    pub(super) lock: NewLock,
}

#[async_trait]
impl Recipe for MariaDbRecipe {
    fn check_ttl(&self, ttl: Duration) -> Result<(), OptionError> {
        if ttl >= self.ttl_min {
            return Ok(());
        }
        bad_option(
            "ttl",
            format!(
                "MariaDB cannot notice within {} ms that a holder is gone; use --ttl {}ms or more",
                ttl.as_millis(),
                self.ttl_min.as_millis()
            ),
        )
    }

    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, ClientError> {
        let client = MariaDbClient {
            server: MariaDbServer::of(hello).await?,
            options: hello.options()?,
            client: hello.client.clone(),
            seed: Seed(hello.seed),
        };
        Ok(Box::new(MariaDbSession { client: Arc::new(client), lock: self.lock }))
    }
}

struct MariaDbSession {
    client: Arc<MariaDbClient>,
    lock: NewLock,
}

impl Session for MariaDbSession {
    fn lock(&self, process: u64, notices: Notices) -> Box<dyn Lock> {
        (self.lock)(self.client.clone(), process, notices)
    }
}
