//! Locks in PostgreSQL: `postgres-row` and `postgres-version`, which keep the data beside the lock, and
//! `postgres-advisory`, which protects data elsewhere.
//!
//! Source: PostgreSQL's documentation, sections "Explicit Locking" (row-level and advisory locks) and "Client Connection
//! Defaults"; and the remark in Martin Kleppmann's "How to do distributed locking" that a transactional database needs
//! no lock service.

mod advisory;
mod connection;
mod row;
mod servers;
mod version;

use crate::backend::{Backend, Lock, Session};
use crate::notices::Notices;
use crate::options::Options;
use crate::protocol::Hello;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct PostgresRow;
pub(crate) struct PostgresVersion;
pub(crate) struct PostgresAdvisory;

/// What differs between the backends, besides their words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Row,
    Version,
    Advisory,
}

/// Everything but names, words and the way to lock is the same.
macro_rules! backend {
    ($backend:ident, $way:ident, $name:literal, $about:literal, $promises:literal) => {
        #[async_trait]
        impl Backend for $backend {
            fn name(&self) -> &'static str {
                $name
            }

            fn about(&self) -> &'static str {
                $about
            }

            fn promises(&self) -> &'static str {
                $promises
            }

            fn own_storage(&self) -> bool {
                Way::$way != Way::Advisory
            }

            fn image(&self) -> Option<&'static str> {
                Some("postgres")
            }

            fn default_nodes(&self) -> usize {
                1
            }

            fn check(&self, options: &Options) -> Result<(), String> {
                match options.nodes {
                    None | Some(1) => Ok(()),
                    Some(nodes) => Err(format!("{} has one server, not {nodes}; use --nodes 1", $name)),
                }
            }

            fn check_ttl(&self, ttl: Duration) -> Result<(), String> {
                Way::$way.check_ttl(ttl)
            }

            fn port(&self) -> u16 {
                servers::PORT
            }

            fn service(&self, _index: usize, _nodes: &[Arc<dyn Node>], _options: &Options) -> Service {
                servers::service()
            }

            async fn await_ready(&self, nodes: &[Arc<dyn Node>], _: &Options) -> Result<(), ClusterError> {
                servers::await_ready(nodes, servers::READY_WITHIN).await
            }

            async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError> {
                servers::version(node).await
            }

            async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, String> {
                PgSession::open(hello, Way::$way)
            }
        }
    };
}

backend!(
    PostgresRow,
    Row,
    "postgres-row",
    "SELECT … FOR UPDATE: the row lock and the data in one transaction, which commits the write and ends the lock",
    "exclusion, ownership, progress, no lost update: a holder that is too late cannot commit; one server, no availability"
);
backend!(
    PostgresVersion,
    Version,
    "postgres-version",
    "no lock: read a version, and write only if it is still the same; whoever comes second is refused",
    "no lost update; no exclusion: everybody may work at once, and one of them wins; one server, no availability"
);
backend!(
    PostgresAdvisory,
    Advisory,
    "postgres-advisory",
    "pg_advisory_lock: a lock that lives as long as the connection, for data that is elsewhere",
    "exclusion while the holder's connection lives, ownership, progress; no fencing; one server, no availability"
);

impl Way {
    fn check_ttl(self, ttl: Duration) -> Result<(), String> {
        let shortest = match self {
            // The server counts milliseconds; but a statement must find the time to be answered.
            Way::Row => Duration::from_millis(100),
            Way::Version => Duration::ZERO,
            // Keepalives are counted in whole seconds: one of silence, and one to answer.
            Way::Advisory => Duration::from_secs(2),
        };
        if ttl >= shortest {
            return Ok(());
        }
        Err(format!(
            "PostgreSQL cannot notice within {} ms that a holder is gone; use --ttl {}ms or more",
            ttl.as_millis(),
            shortest.as_millis()
        ))
    }
}

/// What the processes of a client share: only where the server is. Locks belong to connections, so each process has one
/// of its own.
struct PgSession {
    address: Arc<str>,
    way: Way,
}

impl PgSession {
    fn open(hello: &Hello, way: Way) -> Result<Box<dyn Session>, String> {
        let [server] = hello.servers.as_slice() else {
            return Err(format!("PostgreSQL needs one server, and the hello names {}", hello.servers.len()));
        };
        Ok(Box::new(PgSession { address: server.address.as_str().into(), way }))
    }
}

impl Session for PgSession {
    fn can(&self) -> Vec<String> {
        let can: &[&str] = match self.way {
            Way::Row => &["validity", "lost", "extend"],
            Way::Version => &[],
            Way::Advisory => &["lost"],
        };
        can.iter().map(|word| (*word).to_owned()).collect()
    }

    fn lock(&self, _process: u64, notices: Notices) -> Box<dyn Lock> {
        let address = self.address.clone();
        match self.way {
            Way::Row => Box::new(row::RowLock::new(address, notices)),
            Way::Version => Box::new(version::VersionLock::new(address, notices)),
            Way::Advisory => Box::new(advisory::AdvisoryLock::new(address, notices)),
        }
    }
}
