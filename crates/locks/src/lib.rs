//! Backends, one file each; the client side of the client protocol; and the storage that the locks protect.
//!
//! ```text
//! controller ── client protocol ──► client.rs ──► Lock (redis_single.rs, redlock.rs, etcd/, …) ──► lock service
//!                                      └────────► storage_client.rs ──► storage.rs, with a guard of guards/
//! ```

mod backend;
mod canary;
mod client;
mod etcd;
mod guards;
mod held;
mod http;
mod link;
pub mod protocol;
mod redis_node;
mod redis_servers;
mod redis_single;
mod redlock;
mod registry;
mod stdio;
mod storage;
mod storage_client;

pub use backend::{Backend, Lock, Notices, Options, Persistence, Session};
pub use client::{ClientError, run_client, serve_client};
pub use guards::{Guard, Record, Write, find_guard, guards};
pub use http::{HttpTool, http_get};
pub use registry::{find, registry};
pub use storage::{Stats, run_storage, serve_storage};
pub use storage_client::StorageClient;
