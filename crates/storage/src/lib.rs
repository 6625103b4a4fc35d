//! The storage that a lock protects: a value per key, behind a guard that decides which writes it accepts.
//!
//! ```text
//! client program ──► replicas.rs ──► client.rs ══ JSON lines over TCP ══► server.rs ──► store.rs ──► a guard of guards/
//! ```
//!
//! A guard is one file in `guards/` and one line in its registry.

mod client;
mod guards;
mod log;
mod protocol;
mod replicas;
mod sequencers;
mod server;
mod store;
#[cfg(test)]
mod testing;

pub use guards::{Credentials, Guard, Need, Record, Rejection, Write, find_guard, guards};
pub use replicas::ProtectedStorage;
pub use sequencers::Sequencers;
pub use server::{StorageSetup, run_storage, serve_storage};
