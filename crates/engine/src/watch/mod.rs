//! What is watched and logged while a run goes on.

pub(crate) mod client_monitor;
pub mod clock_watch;
pub(crate) mod node_log;
pub(crate) mod node_watch;
pub(crate) mod server_log;
pub(crate) mod server_watch;
pub(crate) mod storage_log;
