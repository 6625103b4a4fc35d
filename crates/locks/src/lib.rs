//! Backends, one file each, and the client side of the client protocol.

mod backend;
pub mod protocol;

pub use backend::{Backend, Lock, Notices, Options, Persistence, Session};
