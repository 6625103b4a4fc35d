//! Options of locks: how a lock service is set up, and which variant of its recipe clients follow.

use crate::client::client_clock::ClientClock;
use clap::{Args, ValueEnum};
use fencepost_cluster::images::ServerChoice;
use fencepost_history::{TimeSpan, changed_fields, fields};
use serde::{Deserialize, Serialize};

/// Options of all locks, as on the command line, in run.toml and in the client's hello. A field here is an
/// option there; [`crate::LockDefinition::option_names`] says which locks understand it.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[command(next_help_heading = "Options of locks (see `fencepost list locks`)")]
pub struct Options {
    /// Servers of the lock service [default: the lock's].
    #[arg(long)]
    pub nodes: Option<usize>,
    /// Version of the servers, such as redis-7.0 or valkey-9.1 (see `fencepost list servers`), or a program,
    /// a folder or an image of your own: ./redis-server, folder:my-etcd, image:valkey/valkey:9.
    #[arg(long, value_name = "SERVER")]
    pub server: Option<ServerChoice>,
    /// The servers speak TLS, and require a certificate from each client; all certificates are made for the
    /// run.
    #[arg(long)]
    pub tls: bool,
    /// The servers ask for a password, which is made for the run.
    #[arg(long)]
    pub auth: bool,
    /// What Redis makes durable, and when.
    #[arg(long, value_enum, default_value_t)]
    pub redis_persistence: Persistence,
    /// How a lock on one Redis is acquired.
    #[arg(long, value_enum, default_value_t)]
    pub acquire: Acquire,
    /// How a lock on one Redis is released.
    #[arg(long, value_enum, default_value_t)]
    pub release: ReleaseBy,
    /// The value of a lock on one Redis.
    #[arg(long, value_enum, default_value_t)]
    pub value: LockValue,
    /// How a lock on one Redis is prolonged by its holder (--workload prolong).
    #[arg(long, value_enum, default_value_t)]
    pub prolong: ProlongBy,
    /// Renew the lock every third of its TTL for as long as it is held.
    #[arg(long)]
    pub watchdog: bool,
    /// Replicas that must have acknowledged the lock (WAIT) before it counts.
    #[arg(long, value_name = "REPLICAS")]
    pub wait: Option<u32>,
    /// Redlock accepts a lock without checking how long the requests to the servers took.
    #[arg(long)]
    pub no_elapsed_check: bool,
    /// The clock by which Redlock measures elapsed time and the validity of a lock.
    #[arg(long, value_enum, default_value_t)]
    pub client_clock: ClientClock,
    /// Redlock rests for the same time before each new attempt.
    #[arg(long)]
    pub no_retry_jitter: bool,
    /// Redlock: the mean rest before each new attempt [default: a twentieth of the TTL, 10 to 50 ms].
    #[arg(long, value_name = "TIME")]
    pub retry_delay: Option<TimeSpan>,
    /// The nodes on which Redlock releases.
    #[arg(long, value_enum, default_value_t)]
    pub release_where: ReleaseWhere,
    /// Where Redlock gets a fencing token.
    #[arg(long, value_enum, default_value_t)]
    pub token: TokenFrom,
    /// etcd: a waiter does not look again whether its session still lives (the defect of issue 11456).
    #[arg(long)]
    pub no_recheck: bool,
    /// chubby: how long a lock stays taken after its holder was lost, in whole seconds [default: 10s].
    #[arg(long, value_name = "TIME")]
    pub lock_delay: Option<TimeSpan>,
    /// redis-semaphore: what decides which client gets a permit.
    #[arg(long, value_enum, default_value_t)]
    pub semaphore_order: SemaphoreOrder,
    /// redis-several, postgres-several: how the names of a set are taken.
    #[arg(long, value_enum, default_value_t)]
    pub take_names: TakeNames,
    /// redis-reentrant: how the lock counts the releases that its holder owes.
    #[arg(long, value_enum, default_value_t)]
    pub reentry: ReentryCount,
    /// redis-read-write: whether one request both looks for other holders and takes the lock.
    #[arg(long, value_enum, default_value_t)]
    pub look_and_take: LookAndTake,
    /// zookeeper-read-write: a reader looks only at the znode before its own; etcd-election: a candidate only
    /// at the key before its own.
    #[arg(long)]
    pub nearest_only: bool,
    /// redis-election: the leader renews the key without checking that it is its own.
    #[arg(long)]
    pub blind_renewal: bool,
    /// zookeeper-election, postgres-election: the leader does not learn that its session or connection ended.
    #[arg(long)]
    pub unwatched: bool,
    /// kubernetes-election: how long the leader goes on without a renewal [default: two thirds of the TTL].
    #[arg(long, value_name = "TIME")]
    pub renew_deadline: Option<TimeSpan>,
    /// kubernetes-election: the rest between two looks at the record [default: two fifteenths of the TTL].
    #[arg(long, value_name = "TIME")]
    pub retry_period: Option<TimeSpan>,
    /// kubernetes-election: the clock by which a candidate decides that the record has expired.
    #[arg(long, value_enum, default_value_t)]
    pub record_clock: RecordClock,
    /// zookeeper-semaphore, etcd-semaphore: a client counts the holders before it makes its own znode or key,
    /// and not afterwards.
    #[arg(long)]
    pub count_first: bool,
    /// postgres-read-write: how a reader releases.
    #[arg(long, value_enum, default_value_t)]
    pub reader_release: ReaderRelease,
    /// When NATS calls fsync.
    #[arg(long, value_enum, default_value_t)]
    pub nats_sync: NatsSync,
    /// How a lock on NATS is released.
    #[arg(long, value_enum, default_value_t)]
    pub nats_release: NatsRelease,
    /// mariadb-advisory: what becomes of a lock whose connection was lost.
    #[arg(long, value_enum, default_value_t)]
    pub mariadb_reconnect: MariaDbReconnect,
    /// mariadb-row: the clock by which a lease begins and ends.
    #[arg(long, value_enum, default_value_t)]
    pub mariadb_expiry: MariaDbExpiry,
    /// hadoop: how the client that was active before is fenced.
    #[arg(long, value_enum, default_value_t)]
    pub fence: Fence,
}

/// Values of options: what is chosen among, as command lines and JSON write it.
macro_rules! choices {
    ($($choice:item)+) => {
        $(
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
            #[serde(rename_all = "kebab-case")]
            $choice
        )+
    };
}

choices! {
    /// What decides who is let in by a semaphore on Redis.
    pub enum SemaphoreOrder {
        /// A counter on the server, in the step that takes the place.
        #[default]
        Counter,
        /// The counter, read in a request before.
        CounterBefore,
        /// The clocks of the clients.
        Clocks,
    }

    /// How the names of a set are taken.
    pub enum TakeNames {
        /// All in one step, or in an order that is the same for all; none is kept where one is refused.
        #[default]
        AllOrNone,
        /// One after the other as they were asked for, and each is kept while the next one is waited for.
        AsAsked,
        /// One after the other, and those that were taken are kept where one is refused.
        LeaveHalf,
    }

    /// How it is known how often the holder of a reentrant lock on Redis has to release it.
    pub enum ReentryCount {
        /// Each acquire of the holder counts, and each release.
        #[default]
        Counted,
        /// An acquire of the holder does not count: the first release removes the lock.
        Uncounted,
        /// An acquire of the holder is sent twice, and counts twice: the last release leaves the lock.
        Twice,
        /// Each release removes the lock, whatever the count.
        ReleaseAll,
    }

    /// Whether a read-write lock on Redis is looked at and taken in one step.
    pub enum LookAndTake {
        /// One script does both.
        #[default]
        Together,
        /// Two requests.
        Apart,
    }

    /// By what a candidate of Kubernetes' election knows that the record of the leader has run out.
    pub enum RecordClock {
        /// Its own monotonic clock, from the last change of the record that it saw.
        #[default]
        Observed,
        /// Its own time of day, compared with the time of renewal in the record.
        Written,
    }

    /// How a reader releases an advisory lock of PostgreSQL.
    pub enum ReaderRelease {
        /// By the function for shared locks.
        #[default]
        Shared,
        /// By the function for exclusive locks, which only warns: the lock stays until its connection ends.
        Exclusive,
    }

    /// What becomes of a lock in MariaDB whose connection was lost.
    pub enum MariaDbReconnect {
        /// It is lost, and the client reports it.
        #[default]
        Reported,
        /// The client connects again silently, and believes that it still holds the lock.
        Silent,
    }

    /// The clock by which the lease of a row in MariaDB begins and ends.
    pub enum MariaDbExpiry {
        /// The server's, for all clients.
        #[default]
        Server,
        /// Each client's own time of day.
        Client,
    }

    /// How the client that was active before is fenced.
    pub enum Fence {
        /// It is killed.
        #[default]
        Kill,
        /// It is cut off from the storage.
        Cut,
        /// It is not fenced, but success is reported.
        Lie,
    }

    /// When a server of NATS calls fsync.
    pub enum NatsSync {
        /// Every two minutes, the default of NATS.
        #[default]
        Interval,
        /// Before each answer.
        Always,
    }

    /// How a lock on NATS is released.
    pub enum NatsRelease {
        /// Delete only the entry with the client's own revision.
        #[default]
        Revision,
        /// Delete whatever entry is there.
        Any,
    }

    /// What Redis writes to its append-only file, and when it calls fsync.
    pub enum Persistence {
        /// Neither append-only file nor snapshots.
        #[default]
        None,
        /// Append-only file, fsync once a second.
        Everysec,
        /// Append-only file, fsync before each answer.
        Always,
    }

    /// How a lock on one Redis is acquired.
    pub enum Acquire {
        /// SET NX PX, in one step.
        #[default]
        SetNxPx,
        /// SETNX, then EXPIRE.
        SetnxExpire,
        /// SETNX, for ever.
        NoTtl,
    }

    /// How a lock on one Redis is released.
    pub enum ReleaseBy {
        /// A script that compares and deletes, in one step.
        #[default]
        Lua,
        /// The same script, loaded once and then called by its digest alone.
        Digest,
        /// GET, a comparison in the client, then DEL.
        GetDel,
        /// DEL, whatever is there.
        Blind,
    }

    /// How a lock on one Redis is prolonged by its holder.
    pub enum ProlongBy {
        /// A script that compares and prolongs, in one step.
        #[default]
        Lua,
        /// PEXPIRE, without a check whose lock it is.
        Blind,
    }

    /// The value of a lock on one Redis.
    pub enum LockValue {
        /// A value that no other acquire has.
        #[default]
        Unique,
        /// The same value for all clients.
        Fixed,
    }

    /// The nodes on which Redlock releases.
    pub enum ReleaseWhere {
        /// On all nodes.
        #[default]
        All,
        /// On those that were seen to grant it.
        #[value(name = "seen")]
        #[serde(rename = "seen")]
        Granted,
    }

    /// Where Redlock gets a fencing token.
    pub enum TokenFrom {
        /// Nowhere: the algorithm has none.
        #[default]
        None,
        /// A counter on the first node (INCR).
        IncrOne,
        /// A counter on each node that granted the lock (INCR), the highest of them.
        IncrEach,
    }
}

impl Options {
    /// The names of all options, as in [`crate::LockDefinition::options`].
    pub fn names() -> Vec<String> {
        fields(&Options::default()).into_iter().map(|(name, _)| name).collect()
    }

    /// Options that differ from their defaults, without `nodes`, which every lock understands.
    pub fn changed(&self) -> Vec<String> {
        let changed = changed_fields(self).into_iter().map(|(name, _)| name);
        changed.filter(|name| name != "nodes").collect()
    }
}
