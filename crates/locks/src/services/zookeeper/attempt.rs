//! The two recipes: how a znode is created, waited for and found again.

use super::decisions::{AfterCreate, Place, Turn, after_create, first, place, unless_broke, unless_gone};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, EventType, OneshotWatcher};

const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
const SEQUENTIAL: CreateOptions<'static> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

const COUNT_AGAIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ZnodeKind {
    /// One znode: its creator holds the lock.
    Ephemeral,
    /// A queue of znodes: the creator of the first holds the lock.
    Sequential,
}

pub(super) struct Attempt<'a> {
    client: &'a Client,
    kind: ZnodeKind,
    turn: Turn,
    /// The folder of the key: persistent.
    parent: String,
    /// The znode, or what its name begins with: the random part is what it is known again by.
    path: String,
    /// What its znode says: the process that asks.
    process: u64,
    wakeups: &'a AtomicU64,
    others: AtomicBool,
}

pub(super) struct ZnodeGrant {
    pub(super) path: String,
    /// Of the transaction that created the znode: it grows with every grant.
    pub(super) czxid: i64,
    pub(super) created: Instant,
}

struct OwnZnode {
    path: String,
    czxid: i64,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        client: &'a Client,
        (kind, turn): (ZnodeKind, Turn),
        key: &str,
        wakeups: &'a AtomicU64,
    ) -> Attempt<'a> {
        let parent = folder(key);
        let path = match kind {
            ZnodeKind::Ephemeral => format!("{parent}/lock"),
            ZnodeKind::Sequential => {
                format!("{parent}/_c_{:032x}-{}-", rand::random::<u128>(), turn.word())
            }
        };
        Attempt { client, kind, turn, parent, path, process: 0, wakeups, others: AtomicBool::new(false) }
    }

    pub(super) fn of(self, process: u64) -> Attempt<'a> {
        Attempt { process, ..self }
    }

    pub(super) fn again(
        client: &'a Client,
        kind: ZnodeKind,
        key: &str,
        path: &str,
        wakeups: &'a AtomicU64,
    ) -> Attempt<'a> {
        Attempt { path: path.to_owned(), ..Attempt::new(client, (kind, Turn::Alone), key, wakeups) }
    }

    pub(super) fn saw_others(&self) -> bool {
        self.others.load(Ordering::Relaxed)
    }

    /// Returns when the lock is ours, or with an error that ends the attempt: the session is over, or a
    /// server refused. A connection that broke is none: it goes on as soon as there is another.
    pub(super) async fn take(&self) -> Result<ZnodeGrant, Error> {
        match self.kind {
            ZnodeKind::Ephemeral => self.take_only().await,
            ZnodeKind::Sequential => self.take_turn().await,
        }
    }

    async fn take_only(&self) -> Result<ZnodeGrant, Error> {
        loop {
            let created = Instant::now();
            if let Some(OwnZnode { path, czxid }) = self.create().await? {
                return Ok(ZnodeGrant { path, czxid, created });
            }
            // Where it is gone meanwhile, try again at once.
            if let Some((Some(_), gone)) = unless_broke(self.client.check_and_watch_stat(&self.path).await)? {
                self.wait(gone).await?;
            }
        }
    }

    async fn take_turn(&self) -> Result<ZnodeGrant, Error> {
        if let Turn::CountedBefore { of } = self.turn {
            self.count_below(of).await?;
        }
        let created = Instant::now();
        // No two znodes of a queue have one name.
        let Some(OwnZnode { path, czxid }) = self.create().await? else { return Err(Error::NodeExists) };
        loop {
            let Some(names) = unless_broke(self.client.list_children(&self.parent).await)? else { continue };
            let predecessor = match place(names, name(&path), self.turn) {
                Place::First => return Ok(ZnodeGrant { path, czxid, created }),
                Place::Behind(name) => format!("{}/{name}", self.parent),
                Place::BehindMany => {
                    self.await_change(&path).await?;
                    continue;
                }
                Place::Gone => return Err(Error::SessionExpired),
            };
            self.others.store(true, Ordering::Relaxed);
            // As Curator does: a read leaves no watch where the znode is gone.
            if let Some((_, _, gone)) = unless_gone(self.client.get_and_watch_data(&predecessor).await)? {
                self.wait(gone).await?;
            }
        }
    }

    /// Waits until a znode comes or goes. As in Curator's semaphore, this wakes all that wait.
    async fn await_change(&self, path: &str) -> Result<(), Error> {
        self.others.store(true, Ordering::Relaxed);
        let watched = self.client.list_and_watch_children(&self.parent).await;
        let Some((names, changed)) = unless_broke(watched)? else { return Ok(()) };
        if place(names, name(path), self.turn) == Place::BehindMany {
            self.wait(changed).await?;
        }
        Ok(())
    }

    /// Returns when there are fewer znodes than permits. Who comes next may have counted the same.
    async fn count_below(&self, permits: u32) -> Result<(), Error> {
        loop {
            // Without the folder no client has come yet.
            let names = unless_gone(self.client.list_children(&self.parent).await)?.unwrap_or_default();
            if names.len() < permits as usize {
                return Ok(());
            }
            self.others.store(true, Ordering::Relaxed);
            sleep(COUNT_AGAIN).await;
        }
    }

    async fn wait(&self, watcher: OneshotWatcher) -> Result<(), Error> {
        if watcher.changed().await.event_type == EventType::Session {
            return Err(Error::SessionExpired);
        }
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Creates our znode; none where there is another of its name.
    async fn create(&self) -> Result<Option<OwnZnode>, Error> {
        let options = match self.kind {
            ZnodeKind::Ephemeral => EPHEMERAL,
            ZnodeKind::Sequential => SEQUENTIAL,
        };
        loop {
            match after_create(
                self.client.create(&self.path, self.process.to_string().as_bytes(), &options).await,
            ) {
                AfterCreate::Created((stat, sequence)) => {
                    let path = match self.kind {
                        ZnodeKind::Ephemeral => self.path.clone(),
                        ZnodeKind::Sequential => format!("{}{sequence}", self.path),
                    };
                    return Ok(Some(OwnZnode { path, czxid: stat.czxid }));
                }
                AfterCreate::Exists => {
                    self.others.store(true, Ordering::Relaxed);
                    return Ok(None);
                }
                AfterCreate::MakeParent => {
                    unless_broke(self.client.mkdir(&self.parent, &PERSISTENT).await)?;
                }
                AfterCreate::Find => {
                    if let Some(own) = self.find().await? {
                        return Ok(Some(own));
                    }
                }
                AfterCreate::End(error) => return Err(error),
            }
        }
    }

    /// Our znode, if there is one, as of now: the server catches up with the leader first.
    async fn find(&self) -> Result<Option<OwnZnode>, Error> {
        loop {
            match self.look().await {
                Err(Error::NoNode) => return Ok(None),
                looked => {
                    if let Some(found) = unless_broke(looked)? {
                        return Ok(found);
                    }
                }
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
            // Where it is gone, the next look says so.
            if unless_gone(self.client.delete(&own.path, None).await)?.is_some() {
                return Ok(());
            }
        }
    }
}

/// The process that the first znode of the queue names; none: the queue is empty. Source: `getLeader` of
/// Curator's `LeaderLatch`.
pub(super) async fn leader(client: &Client, key: &str) -> Result<Option<u64>, Error> {
    let folder = folder(key);
    // A server may be behind the others.
    while unless_broke(client.sync("/").await)?.is_none() {}
    loop {
        let names = match client.list_children(&folder).await {
            Err(Error::NoNode) => return Ok(None),
            listed => unless_broke(listed)?,
        };
        let Some(names) = names else { continue };
        let Some(first) = first(names) else { return Ok(None) };
        // Where it is gone meanwhile, another one leads.
        if let Some((data, _)) = unless_gone(client.get_data(&format!("{folder}/{first}")).await)? {
            return Ok(String::from_utf8_lossy(&data).parse().ok());
        }
    }
}

fn folder(key: &str) -> String {
    format!("/fencepost/{key}")
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
