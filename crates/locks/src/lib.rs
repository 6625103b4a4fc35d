//! Backends, one file each; the client side of the client protocol; and the storage that the locks protect.
//!
//! ```text
//! controller ── client protocol ──► client.rs ──► Lock (redis_lock.rs, redlock/, etcd/, …) ──► lock service
//!                                      └────────► storage_quorum.rs ──► storage.rs, with a guard of guards/
//! ```

mod backend;
mod canary;
mod client;
mod etcd;
mod fencer;
mod guards;
mod held;
mod http;
mod link;
mod notices;
mod options;
mod points;
mod postgres;
pub mod protocol;
mod redis_lock;
mod redis_node;
mod redis_sentinel;
mod redis_servers;
mod redis_single;
mod redis_watchdog;
mod redlock;
mod registry;
mod stdio;
mod storage;
mod storage_client;
mod storage_quorum;
mod storage_server;
#[cfg(test)]
mod testing;
mod zookeeper;

pub use backend::{Backend, Lock, Sequencers, Session};
pub use client::{ClientError, run_client, serve_client};
pub use fencer::{FENCER_PORT, run_fencer};
pub use guards::{Guard, Need, Pass, Record, Write, find_guard, guards};
pub use held::ClientClock;
pub use http::{HttpTool, http_get};
pub use notices::Notices;
pub use options::{
    Acquire, LockValue, Options, Persistence, Release, ReleaseWhere, TokenFrom, check_options, option_name,
};
pub use points::{Linger, points};
pub use registry::{find, registry};
pub use storage::Stats;
pub use storage_client::StorageClient;
pub use storage_quorum::Protected;
pub use storage_server::{StorageSetup, run_storage, serve_storage};
