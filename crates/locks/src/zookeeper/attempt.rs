//! The two recipes: how a znode is created, waited for and found again.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, EventType, OneshotWatcher};

const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
const SEQUENTIAL: CreateOptions<'static> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ZnodeKind {
    /// One znode: its creator holds the lock.
    Ephemeral,
    /// A queue of znodes: the creator of the first holds the lock.
    Sequential,
}

/// One acquire of a key by a session.
pub(super) struct Attempt<'a> {
    client: &'a Client,
    kind: ZnodeKind,
    /// The folder of the key: persistent.
    parent: String,
    /// The znode, or what its name begins with: the random part is what it is known again by.
    path: String,
    /// Counts events of watches that woke the waiter.
    wakeups: &'a AtomicU64,
}

/// The lock is taken.
pub(super) struct ZnodeGrant {
    pub(super) path: String,
    /// Of the transaction that created the znode: it grows with every grant.
    pub(super) czxid: i64,
    /// When the request to create it was sent.
    pub(super) created: Instant,
}

/// A znode of ours.
struct OwnZnode {
    path: String,
    czxid: i64,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(client: &'a Client, kind: ZnodeKind, key: &str, wakeups: &'a AtomicU64) -> Attempt<'a> {
        let parent = format!("/fencepost/{key}");
        let path = match kind {
            ZnodeKind::Ephemeral => format!("{parent}/lock"),
            ZnodeKind::Sequential => format!("{parent}/_c_{:032x}-lock-", rand::random::<u128>()),
        };
        Attempt { client, kind, parent, path, wakeups }
    }

    /// The znode of an earlier attempt, to be taken back.
    pub(super) fn again(
        client: &'a Client,
        kind: ZnodeKind,
        key: &str,
        path: &str,
        wakeups: &'a AtomicU64,
    ) -> Attempt<'a> {
        Attempt { client, kind, parent: format!("/fencepost/{key}"), path: path.to_owned(), wakeups }
    }

    /// Returns when the lock is ours, or with an error that ends the attempt: the session is over, or a server refused.
    /// A connection that broke is none: it goes on as soon as there is another.
    pub(super) async fn take(&self) -> Result<ZnodeGrant, Error> {
        match self.kind {
            ZnodeKind::Ephemeral => self.take_only().await,
            ZnodeKind::Sequential => self.take_turn().await,
        }
    }

    async fn take_only(&self) -> Result<ZnodeGrant, Error> {
        loop {
            let created = Instant::now();
            match self.create().await {
                Ok(OwnZnode { path, czxid }) => return Ok(ZnodeGrant { path, czxid, created }),
                Err(Error::NodeExists) => {}
                Err(error) => return Err(error),
            }
            match self.client.check_and_watch_stat(&self.path).await {
                Ok((Some(_), gone)) => self.wait(gone).await?,
                // Gone meanwhile, or the connection broke: try again at once.
                Ok((None, _)) | Err(Error::ConnectionLoss) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn take_turn(&self) -> Result<ZnodeGrant, Error> {
        let created = Instant::now();
        let OwnZnode { path, czxid } = self.create().await?;
        let own_name = name(&path).to_owned();
        loop {
            let mut names = match self.client.list_children(&self.parent).await {
                Ok(names) => names,
                Err(Error::ConnectionLoss) => continue,
                Err(error) => return Err(error),
            };
            names.sort_unstable_by(|a, b| sequence(a).cmp(sequence(b)));
            let Some(place) = names.iter().position(|name| *name == own_name) else {
                // Only the end of the session, or a stranger, can have removed it.
                return Err(Error::SessionExpired);
            };
            // Everybody who came before is gone. An old view of a follower cannot mislead: it holds our own znode, so it
            // holds all that are older, too, but for those that were deleted.
            let Some(before) = place.checked_sub(1) else { return Ok(ZnodeGrant { path, czxid, created }) };
            let predecessor = format!("{}/{}", self.parent, names[before]);
            // As Curator does: watch with a read, which leaves no watch behind where there is no znode any more.
            match self.client.get_and_watch_data(&predecessor).await {
                Ok((_, _, gone)) => self.wait(gone).await?,
                Err(Error::NoNode | Error::ConnectionLoss) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn wait(&self, watcher: OneshotWatcher) -> Result<(), Error> {
        if watcher.changed().await.event_type == EventType::Session {
            return Err(Error::SessionExpired);
        }
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn create(&self) -> Result<OwnZnode, Error> {
        let options = match self.kind {
            ZnodeKind::Ephemeral => EPHEMERAL,
            ZnodeKind::Sequential => SEQUENTIAL,
        };
        loop {
            match self.client.create(&self.path, &[], &options).await {
                Ok((stat, sequence)) => {
                    let path = match self.kind {
                        ZnodeKind::Ephemeral => self.path.clone(),
                        ZnodeKind::Sequential => format!("{}{sequence}", self.path),
                    };
                    return Ok(OwnZnode { path, czxid: stat.czxid });
                }
                Err(Error::NoNode) => match self.client.mkdir(&self.parent, &PERSISTENT).await {
                    Ok(()) | Err(Error::ConnectionLoss) => {}
                    Err(error) => return Err(error),
                },
                // It may have been created. What was sent on the old connection can have no effect any more: the leader
                // has seen the session move. So what is found now is what there is.
                Err(Error::ConnectionLoss) => {
                    if let Some(own) = self.find().await? {
                        return Ok(own);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Our znode, if there is one, as of now: the server catches up with the leader first.
    async fn find(&self) -> Result<Option<OwnZnode>, Error> {
        loop {
            match self.look().await {
                Err(Error::ConnectionLoss) => {}
                Err(Error::NoNode) => return Ok(None),
                found => return found,
            }
        }
    }

    async fn look(&self) -> Result<Option<OwnZnode>, Error> {
        self.client.sync("/").await?;
        let path = match self.kind {
            ZnodeKind::Ephemeral => self.path.clone(),
            ZnodeKind::Sequential => {
                let names = self.client.list_children(&self.parent).await?;
                let own = names.iter().find(|child| child.starts_with(name(&self.path)));
                let Some(own) = own else { return Ok(None) };
                format!("{}/{own}", self.parent)
            }
        };
        let stat = self.client.check_stat(&path).await?;
        let ours = stat.filter(|stat| stat.ephemeral_owner == self.client.session_id().0);
        Ok(ours.map(|stat| OwnZnode { path, czxid: stat.czxid }))
    }

    /// Removes our znode, if there is one. `Ok`: there is none any more, nor can there be.
    pub(super) async fn take_back(&self) -> Result<(), Error> {
        loop {
            let Some(own) = self.find().await? else { return Ok(()) };
            match self.client.delete(&own.path, None).await {
                Ok(()) | Err(Error::NoNode) => return Ok(()),
                Err(Error::ConnectionLoss) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The sequence number of a znode's name: what follows the last dash, always ten digits.
fn sequence(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_ordered_by_number_whatever_the_random_part() {
        let mut names = ["_c_ff-lock-0000000002", "_c_00-lock-0000000010", "_c_aa-lock-0000000001"];
        names.sort_unstable_by(|a, b| sequence(a).cmp(sequence(b)));
        assert_eq!(names, ["_c_aa-lock-0000000001", "_c_ff-lock-0000000002", "_c_00-lock-0000000010"]);
        assert_eq!(name("/fencepost/a/_c_ff-lock-0000000002"), names[1]);
    }
}
