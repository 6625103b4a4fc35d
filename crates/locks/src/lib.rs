//! Backends, one file each, and the client side of the client protocol.
//!
//! ```text
//! controller ── client protocol ──► client.rs ──► Lock (redis_lock.rs, redlock/, etcd/, …) ──► lock service
//!                                      └────────► the storage, by crates/storage
//! ```

mod backend;
mod canary;
mod client;
mod etcd;
mod fencer;
mod held;
mod http;
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
mod sequencers;
mod stdio;
#[cfg(test)]
mod testing;
mod zookeeper;

pub use backend::{Backend, Lock, Session};
pub use client::{ClientError, run_client, serve_client};
pub use fencer::{FENCER_PORT, run_fencer};
pub use held::ClientClock;
pub use http::{HttpTool, http_get};
pub use notices::Notices;
pub use options::{
    Acquire, LockValue, Options, Persistence, Release, ReleaseWhere, TokenFrom, check_options, option_name,
};
pub use points::{Linger, points};
pub use registry::{find, registry};
pub use sequencers::connect_sequencers;
