//! `nats` as a lock: what it is called, what it claims, and how a client begins.

use super::client::NatsClient;
use super::lock::NatsLock;
use super::service::NATS;
use crate::attempts::Attempts;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::held::Held;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session};
use async_trait::async_trait;
use fencepost_history::Seed;
use std::sync::Arc;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "nats",
    about: "an entry of a key-value bucket of NATS JetStream, created where there is none; it expires with the bucket's TTL",
    claims: "exclusion while the servers keep what they acknowledged (--nats-sync always) and judge time alike, and holders stop within the TTL; ownership; progress; availability with any minority down; fencing by the revision",
    service: &NATS,
    recipe: &NatsKeyValue,
    options: &["watchdog", "nats-release"],
    capabilities: |options| Capabilities {
        token: true,
        unique_value: true,
        validity: true,
        loss_notice: options.watchdog,
        renewal: options.watchdog,
        ..Capabilities::NONE
    },
};

struct NatsKeyValue;

#[async_trait]
impl Recipe for NatsKeyValue {
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let options = Arc::new(hello.options()?);
        let client = Arc::new(NatsClient::of(hello).await?);
        let (name, seed) = (hello.client.clone(), Seed(hello.seed));
        Ok(Box::new(move |process, notices| {
            Box::new(NatsLock {
                client: client.clone(),
                options: options.clone(),
                attempts: Attempts::new(&name, process, seed),
                notices,
                held: Held::default(),
            })
        }))
    }
}
