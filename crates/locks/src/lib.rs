//! The built-in locks: their services (a folder each), their recipes, and the client side of the protocol.
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
mod capabilities;
mod client;
mod definition;
mod described;
mod dialer;
mod end;
mod error;
mod existing;
pub mod folder;
mod held;
mod http;
mod notices;
mod on_server;
mod options;
pub mod protocol;
mod readiness;
mod recipe;
mod reply;
mod run_access;
mod sequencers;
mod service;
mod services;
mod sql;
#[cfg(test)]
mod testing;
mod watchdog;

pub use access::{Access, Secret, TlsFiles};
pub use capabilities::Capabilities;
pub use client::client_clock::ClientClock;
pub use client::client_program::{ClientProgram, GrantValues, OwnOption};
pub use client::pause_points::{BETWEEN_CHECK_AND_WRITE, PauseAt, is_acquiring, points};
pub use client::{run_client, serve_client};
pub use definition::LockDefinition;
pub use error::{ClientError, OptionError};
pub use existing::ExistingService;
pub use http::HttpTool;
pub use notices::Notices;
pub use on_server::on_server;
pub use options::{
    Acquire, Fence, LockValue, MariaDbExpiry, MariaDbReconnect, NatsRelease, NatsSync, Options, Persistence,
    ReleaseBy, ReleaseWhere, TokenFrom,
};
pub use readiness::log_says_why;
pub use recipe::{Lock, Recipe, Session};
pub use run_access::{AccessFile, RunAccess};
pub use sequencers::connect_sequencers;
pub use service::{
    LockService, ServerKind, ServersAnswer, ServiceDefaults, ServiceLeadership, ServiceOrders,
};
pub use services::{FENCING_PORT, find, reference, registry, run_fencing, services};
