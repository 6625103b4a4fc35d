//! The driver `local`: nodes are plain processes of this machine, in namespaces of their own.

mod attach;
mod driver;
mod keeper;
mod netlink;
mod root;
mod sandbox;

pub(crate) use driver::{LocalDriver, try_namespaces};
pub(crate) use sandbox::run_sandbox;
