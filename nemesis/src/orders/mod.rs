//! Faults that are orders to servers.

pub(crate) mod error_replies;
pub(crate) mod evict;
pub(crate) mod failover;
pub(crate) mod member;
pub(crate) mod ordered;
pub(crate) mod reconfigure;
pub(crate) mod script_flush;
