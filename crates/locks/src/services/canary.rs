//! `canary-nolock`: no lock at all. Every acquire succeeds at once. It is there to be caught: `exclusion`
//! must see overlapping holds, `lost-updates` overwritten increments, and `fencing` a token that does not
//! grow. For that each acquire hands out the token 1; so the guard `token` fits (and protects nothing).

use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::described::DESCRIBED;
use crate::error::{ClientError, nodes_are};
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use crate::service::LockService;
use async_trait::async_trait;
use fencepost_history::{Completion, Grant, Lease};
use fencepost_storage::Credentials;
use serde_json::Value;
use std::time::Duration;

const TOKEN: i64 = 1;

static CANARY: LockDefinition = LockDefinition {
    name: "canary-nolock",
    about: "no lock: every acquire succeeds at once with token 1; it must be caught",
    claims: "nothing: it must be caught",
    service: &NO_SERVERS,
    recipe: &AlwaysGranted,
    options: &[],
    capabilities: |_| Capabilities { token: true, lease: Lease::None, ..Capabilities::NONE },
};

pub(crate) static LOCKS: &[&LockDefinition] = &[&CANARY];

pub(crate) static NO_SERVERS: LockService = LockService {
    name: "none",
    check_nodes: |_, nodes| nodes_are!(nodes == 0, "this lock has no servers; leave --nodes out"),
    ..DESCRIBED
};

struct AlwaysGranted;

#[async_trait]
impl Recipe for AlwaysGranted {
    async fn connect(&self, _hello: &Hello) -> Result<Session, ClientError> {
        Ok(Box::new(|_, _| Box::new(CanaryLock)))
    }
}

struct CanaryLock;

#[async_trait]
impl Lock for CanaryLock {
    async fn acquire(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Completion {
        Completion::ok(Grant { token: Some(TOKEN), ..Grant::default() })
    }

    async fn release(&mut self, _key: &str, _timeout: Duration) -> Completion {
        Completion::Ok(Value::Null)
    }

    fn credentials(&self, _key: &str) -> Credentials {
        Credentials { token: Some(TOKEN.unsigned_abs()), ..Credentials::default() }
    }
}
