//! `hadoop`: which client is active, and how the former one is fenced, as Hadoop's NameNodes decide it by ZooKeeper.
//!
//! Source: `ActiveStandbyElector` and the fencing of Hadoop's NameNode high availability. The client that creates the ephemeral
//! znode is elected. Beside it stands a persistent one, the breadcrumb, which says who was active last; it goes only with
//! an orderly end. A client that is elected and finds another's breadcrumb fences that client first: it has it killed by the fencing program
//! of its node (`--fence kill`), or cut off by that of the storage (`cut`), and goes active only when that is done.
//! With `--fence lie` fencing reports success and does nothing.

use super::attempt::ZnodeKind;
use super::fencing::{self, FencingError};
use super::lock::ZkLock;
use super::recipe::{CLAIMS, SESSION_BOUND, addresses};
use super::service::ZooKeeperEnsemble;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::notices::Notices;
use crate::options::Fence;
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, OperationError};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{Acls, Client, CreateMode, Error};

/// The least time that fencing is given.
const FENCE: Duration = Duration::from_secs(3);

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "hadoop",
    about: "Hadoop's election of an active node, on ZooKeeper: a breadcrumb names the last active client, and its successor fences it",
    claims: CLAIMS,
    service: &ZooKeeperEnsemble,
    recipe: &HadoopElection,
    options: &["fence"],
    capabilities: |_| Capabilities { fences_clients: true, ..SESSION_BOUND },
};

struct HadoopElection;

#[async_trait]
impl Recipe for HadoopElection {
    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, ClientError> {
        HadoopSession::open(hello, addresses(hello)?)
    }
}

/// The client that was active last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Breadcrumb {
    client: String,
    address: IpAddr,
    pid: u32,
}

/// What the processes of a client share.
struct HadoopSession {
    servers: Arc<str>,
    own: Breadcrumb,
    fence: Fence,
    storage: Option<String>,
}

impl HadoopSession {
    fn open(hello: &Hello, servers: Arc<str>) -> Result<Box<dyn Session>, ClientError> {
        let own = Breadcrumb {
            client: hello.client.clone(),
            address: own_address(&hello.servers[0].address)?,
            pid: std::process::id(),
        };
        let storage = hello
            .storage
            .as_deref()
            .and_then(|storage| storage.rsplit_once(':'))
            .map(|(host, _)| host.to_owned());
        Ok(Box::new(HadoopSession { servers, own, fence: hello.options()?.fence, storage }))
    }
}

/// The address by which this client reaches a server. Nothing is sent.
fn own_address(server: &str) -> Result<IpAddr, ClientError> {
    let connected = UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| {
        socket.connect(server)?;
        socket.local_addr()
    });
    connected
        .map(|address| address.ip())
        .map_err(|error| ClientError::Environment(format!("this client has no way to {server}: {error}")))
}

impl Session for HadoopSession {
    fn lock(&self, _process: u64, notices: Notices) -> Box<dyn Lock> {
        Box::new(HadoopLock {
            elector: ZkLock::new(self.servers.clone(), ZnodeKind::Ephemeral, notices),
            own: self.own.clone(),
            fence: self.fence,
            storage: self.storage.clone(),
        })
    }
}

struct HadoopLock {
    elector: ZkLock,
    own: Breadcrumb,
    fence: Fence,
    storage: Option<String>,
}

fn path(key: &str) -> String {
    format!("/fencepost/{key}/breadcrumb")
}

impl HadoopLock {
    /// Fences the client that was active last, and leaves a breadcrumb of one's own.
    async fn go_active(&self, client: &Client, key: &str) -> Result<(), FencingError> {
        let path = path(key);
        let crumb = serde_json::to_vec(&self.own).expect("a breadcrumb is always JSON");
        let refused = |error: Error| FencingError(format!("ZooKeeper refused the breadcrumb: {error}"));
        match client.get_data(&path).await {
            Ok((last, _)) => {
                let last: Breadcrumb = serde_json::from_slice(&last).map_err(|error| {
                    FencingError(format!("the breadcrumb of {key} cannot be read: {error}"))
                })?;
                if last != self.own {
                    self.fence(&last).await?;
                }
                client.set_data(&path, &crumb, None).await.map(drop).map_err(refused)
            }
            Err(Error::NoNode) => {
                let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
                client.create(&path, &crumb, &persistent).await.map(drop).map_err(refused)
            }
            Err(error) => Err(refused(error)),
        }
    }

    async fn fence(&self, last: &Breadcrumb) -> Result<(), FencingError> {
        match self.fence {
            Fence::Kill => {
                fencing::order(&last.address.to_string(), &format!("kill {}", last.pid), FENCE).await
            }
            Fence::Cut => match &self.storage {
                Some(storage) => fencing::order(storage, &format!("cut {}", last.address), FENCE).await,
                // Nothing is protected that it could be cut off from.
                None => Ok(()),
            },
            Fence::Lie => Ok(()),
        }
    }
}

#[async_trait]
impl Lock for HadoopLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout.max(FENCE);
        let elected = self.elector.acquire(key, ttl, timeout).await;
        let (Completion::Ok(_), Some(client)) = (&elected, self.elector.client()) else { return elected };
        let why = match timeout_at(deadline + FENCE, self.go_active(&client, key)).await {
            Ok(Ok(())) => return elected,
            Ok(Err(why)) => ErrorCode::Other.error(format_args!("not-fenced: {why}")),
            Err(_) => ErrorCode::Other.error("not-fenced: fencing took too long"),
        };
        // Elected, and not active: the lock was not granted to the process. Another may try.
        match self.elector.release(key, timeout).await {
            Completion::Info(reason) => Completion::Info(OperationError::from(format!("{why}; {reason}"))),
            _ => Completion::Fail(why),
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        // An orderly end: no client has to be fenced. Where this cannot be said in time, the next one fences in vain.
        if let Some(client) = self.elector.client() {
            let _ = tokio::time::timeout(timeout / 2, client.delete(&path(key), None)).await;
        }
        self.elector.release(key, timeout / 2).await
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        self.elector.still_valid(key)
    }

    fn token(&self, key: &str) -> Option<u64> {
        self.elector.token(key)
    }

    fn wakeups(&self) -> Option<u64> {
        self.elector.wakeups()
    }
}
