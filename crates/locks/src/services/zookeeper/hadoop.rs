//! `hadoop`: which client is active, and how the former one is fenced, as among Hadoop's NameNodes.
//!
//! Source: `ActiveStandbyElector` and the fencing of Hadoop's NameNode high availability. The client that
//! creates the ephemeral znode is elected. A persistent one beside it, the breadcrumb, names the last active
//! client; it goes only with an orderly end. An elected client that finds another's breadcrumb fences that
//! client before it goes active: has it killed by the fencing program of its node (`--fence kill`), or cut
//! off by that of the storage (`cut`). `--fence lie` reports success and does nothing.

use super::attempt::ZnodeKind;
use super::fencing::{self, FencingError};
use super::lock::ZkLock;
use super::recipe::{CLAIMS, SESSION_BOUND};
use super::servers::ZkServers;
use super::service::ZOOKEEPER;
use crate::capabilities::Capabilities;
use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::options::Fence;
use crate::protocol::Hello;
use crate::recipe::{Lock, Recipe, Session};
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, OperationError};
use fencepost_storage::Credentials;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{Acls, CreateMode, Error};

const FENCE: Duration = Duration::from_secs(3);

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "hadoop",
    about: "Hadoop's election of an active node, on ZooKeeper: a breadcrumb names the last active client, and its successor fences it",
    claims: CLAIMS,
    service: &ZOOKEEPER,
    recipe: &HadoopElection,
    options: &["fence"],
    capabilities: |_| Capabilities { fences_clients: true, ..SESSION_BOUND },
};

struct HadoopElection;

#[async_trait]
impl Recipe for HadoopElection {
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let servers = ZkServers::of(hello).await?;
        let own = Breadcrumb {
            client: hello.client.clone(),
            address: own_address(&hello.servers[0].address)?,
            pid: std::process::id(),
        };
        let storage = hello.storage.as_deref().and_then(|storage| storage.rsplit_once(':'));
        let (storage, fence) = (storage.map(|(host, _)| host.to_owned()), hello.options()?.fence);
        Ok(Box::new(move |_, notices| {
            Box::new(HadoopLock {
                elector: ZkLock::new(servers.clone(), ZnodeKind::Ephemeral, notices),
                own: own.clone(),
                fence,
                storage: storage.clone(),
            })
        }))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Breadcrumb {
    client: String,
    address: IpAddr,
    pid: u32,
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

struct HadoopLock {
    elector: ZkLock,
    own: Breadcrumb,
    fence: Fence,
    storage: Option<String>,
}

fn path(key: &str) -> String {
    format!("/fencepost/{key}/breadcrumb")
}

#[derive(Debug, PartialEq)]
enum AfterLook {
    Leave,
    Renew,
    Fence(Breadcrumb),
}

fn after_look(look: Result<Vec<u8>, Error>, own: &Breadcrumb, key: &str) -> Result<AfterLook, FencingError> {
    let last = match look {
        Ok(last) => last,
        Err(Error::NoNode) => return Ok(AfterLook::Leave),
        Err(error) => return Err(refused(&error)),
    };
    let last: Breadcrumb = serde_json::from_slice(&last)
        .map_err(|error| FencingError(format!("the breadcrumb of {key} cannot be read: {error}")))?;
    Ok(if last == *own { AfterLook::Renew } else { AfterLook::Fence(last) })
}

fn refused(error: &Error) -> FencingError {
    FencingError(format!("ZooKeeper refused the breadcrumb: {error}"))
}

/// Why an elected client is not active; none where it is. The wait for that may have been too long.
fn why_not_active(went: Option<Result<(), FencingError>>) -> Option<OperationError> {
    match went {
        Some(Ok(())) => None,
        Some(Err(why)) => Some(ErrorCode::Other.error(format_args!("not-fenced: {why}"))),
        None => Some(ErrorCode::Other.error("not-fenced: fencing took too long")),
    }
}

/// The end of an acquire of an elected client that is not active, after it gave back its election. The
/// process has no lock, and another may try; unknown where the election may stand until the session ends.
fn after_giving_back(why: OperationError, released: Completion) -> Completion {
    match released {
        Completion::Ok(_) => Completion::Fail(why),
        Completion::Fail(reason) | Completion::Info(reason) => {
            Completion::Info(OperationError::from(format!("{why}; {reason}")))
        }
    }
}

impl HadoopLock {
    /// Fences the client that was active last, and leaves a breadcrumb of one's own.
    async fn go_active(&self, key: &str) -> Result<(), FencingError> {
        let Some(client) = self.elector.client(key) else {
            return Err(FencingError("the session ended with the election".to_owned()));
        };
        let path = path(key);
        let crumb = serde_json::to_vec(&self.own).expect("a breadcrumb is always JSON");
        let last = client.get_data(&path).await.map(|(last, _)| last);
        let left = match after_look(last, &self.own, key)? {
            AfterLook::Leave => {
                let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
                client.create(&path, &crumb, &persistent).await.map(drop)
            }
            AfterLook::Renew => client.set_data(&path, &crumb, None).await.map(drop),
            AfterLook::Fence(last) => {
                self.fence(&last).await?;
                client.set_data(&path, &crumb, None).await.map(drop)
            }
        };
        left.map_err(|error| refused(&error))
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
        if !matches!(elected, Completion::Ok(_)) {
            return elected;
        }
        let went = timeout_at(deadline + FENCE, self.go_active(key)).await.ok();
        match why_not_active(went) {
            // Fencing took its time: the grant is valid for as long as it is now.
            None => Completion::ok(self.elector.grant(key)),
            Some(why) => after_giving_back(why, self.elector.release(key, timeout).await),
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        // An orderly end: no client has to be fenced. Where this cannot be said in time, the next one fences
        // in vain. The breadcrumb of another, who is active by now, stays.
        if let Some(client) = self.elector.client(key) {
            let _ = tokio::time::timeout(timeout / 2, client.delete(&path(key), None)).await;
        }
        self.elector.release(key, timeout / 2).await
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        self.elector.still_valid(key)
    }

    fn credentials(&self, key: &str) -> Credentials {
        self.elector.credentials(key)
    }

    fn wakeups(&self) -> Option<u64> {
        self.elector.wakeups()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ended;
    use fencepost_history::Grant;

    #[test]
    fn what_the_breadcrumb_means() {
        let of = |client: &str, pid| Breadcrumb {
            client: client.to_owned(),
            address: IpAddr::from([198, 18, 0, 9]),
            pid,
        };
        let own = of("c1", 7);
        let after = |look| after_look(look, &own, "a").map_err(|error| error.0);
        let crumb = |crumb: &Breadcrumb| Ok(serde_json::to_vec(crumb).unwrap());
        assert_eq!(after(crumb(&own)), Ok(AfterLook::Renew));
        assert_eq!(after(crumb(&of("c2", 7))), Ok(AfterLook::Fence(of("c2", 7))));
        assert_eq!(after(crumb(&of("c1", 6))), Ok(AfterLook::Fence(of("c1", 6))), "it was started anew");
        assert_eq!(after(Err(Error::NoNode)), Ok(AfterLook::Leave));
        assert!(after(Ok(b"c2".to_vec())).unwrap_err().contains("cannot be read"));
        for error in [Error::ConnectionLoss, Error::SessionExpired, Error::NoAuth] {
            let expected = format!("ZooKeeper refused the breadcrumb: {error}");
            assert_eq!(after(Err(error)), Err(expected), "not fenced, so not active");
        }
    }

    #[test]
    fn a_client_is_active_once_its_predecessor_is_fenced() {
        let why = |went| why_not_active(went).map(|why| why.to_string());
        assert_eq!(why(Some(Ok(()))), None);
        assert_eq!(why(Some(Err(FencingError("no way".to_owned())))), Some("not-fenced: no way".to_owned()));
        assert_eq!(why(None), Some("not-fenced: fencing took too long".to_owned()));

        let after = |released| ended(&after_giving_back("not-fenced: no way".into(), released));
        assert_eq!(after(Completion::ok(Grant::default())), "fail not-fenced");
        assert_eq!(after(Completion::info(ErrorCode::Timeout, "x")), "info not-fenced");
        // The session is over for this client. For the servers it may not be, and the election stands.
        assert_eq!(after(Completion::fail(ErrorCode::NotHeld, "x")), "info not-fenced");
    }
}
