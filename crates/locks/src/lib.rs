//! The built-in locks: their services, their recipes, and the client side of the client protocol. One folder
//! a service.
//!
//! ```text
//! controller ── client protocol ──► client/ ──► Lock (redis/lock.rs, redlock/, etcd/, …) ──► lock service
//!                                      └──────► the storage, by crates/storage
//! ```
//!
//! A lock is a [`LockDefinition`]: a [`LockService`] (its servers), a [`Recipe`] (how clients acquire and
//! release) and [`Capabilities`].

mod access;
mod answer_value;
mod attempts;
mod canary;
mod capabilities;
mod client;
mod client_clock;
mod client_program;
mod configured;
mod definition;
mod dialer;
mod end;
mod error;
mod etcd;
mod existing;
pub mod folder;
mod held;
mod http;
mod mariadb;
mod nats;
mod notices;
mod on_server;
mod options;
mod pause_points;
mod postgres;
pub mod protocol;
mod readiness;
mod recipe;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod redlock;
mod registry;
mod reply;
mod run_access;
mod sequencers;
mod service;
mod sql;
#[cfg(test)]
mod testing;
mod watchdog;
mod zookeeper;

pub use access::{Access, Secret, TlsFiles};
pub use capabilities::Capabilities;
pub use client::{run_client, serve_client};
pub use client_clock::ClientClock;
pub use client_program::{ClientProgram, GrantValues, OwnOption};
pub use definition::LockDefinition;
pub use error::{ClientError, OptionError};
pub use existing::ExistingService;
pub use http::{HttpTool, http_get};
pub use notices::Notices;
pub use on_server::on_server;
pub use options::{
    Acquire, Fence, LockValue, MariaDbExpiry, MariaDbReconnect, NatsRelease, NatsSync, Options, Persistence,
    Release, ReleaseWhere, TokenFrom,
};
pub use pause_points::{BETWEEN_CHECK_AND_WRITE, PauseAt, is_acquiring, points};
pub use readiness::log_says_why;
pub use recipe::{Lock, Recipe, Session};
pub use registry::{find, reference, registry};
pub use run_access::{AccessFile, RunAccess};
pub use sequencers::connect_sequencers;
pub use service::{LockService, ServiceLeadership, ServiceRefusals};
pub use zookeeper::{FENCING_PORT, run_fencing};
