//! Addresses of nodes, the links between them, and the doors to them.

pub(crate) mod door;
pub(crate) mod netlink;
pub(crate) mod network_programs;
pub(crate) mod subnet;
mod translated;
