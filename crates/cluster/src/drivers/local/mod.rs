//! The driver `local`: nodes are plain processes of this machine, in namespaces of their own.

mod attach;
mod devices;
mod driver;
mod keeper;
mod mounts;
mod namespaces;
mod network_files;
mod prepared;
mod root;
mod sandbox;
mod secrets;
mod setup;

pub(crate) use driver::{LocalDriver, try_namespaces};
pub(crate) use prepared::{list_prepared, remove_prepared};
pub(crate) use sandbox::run_sandbox;
pub(crate) use setup::run_setup;
