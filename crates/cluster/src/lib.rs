//! What a node is (processes, signals, address, files), and the drivers that start nodes.
//!
//! ```text
//! drivers/ ──start──► nodes, each with an agent/ as process 1
//! agent_node.rs ══ protocol.rs, JSON lines ══► agent/
//! ```

pub mod agent;
mod agent_node;
mod cache;
mod capability;
mod cleaned;
mod clock_mechanism;
mod cluster_folder;
mod confinement;
mod container;
mod data_tool;
mod debian;
pub mod doctor;
mod driver;
mod drivers;
mod environment;
mod error;
mod eventually;
mod file_lock;
mod hash;
pub mod image_store;
pub mod images;
mod internal_commands;
mod leftovers;
mod mount_attributes;
mod network;
mod node;
mod node_log;
mod own_task;
mod probe;
mod program;
mod progress;
pub mod protocol;
mod register;
mod user_command;

pub use cache::folder as cache_folder;
pub use capability::Capability;
pub use cleaned::{Cleaned, LeftoverKind};
pub use clock_mechanism::ClockMechanism;
pub use cluster_folder::{Announcement, PrivateFolder};
pub use data_tool::{DataCall, DataTool, PackedData};
pub use debian::{DEFAULT_SUITE, DownloadSettings, MIRROR, SUITES, Suite};
pub use driver::{Cluster, ClusterSpec, Driver, DriverOptions};
pub use drivers::docker::first_process_in;
pub use drivers::{DRIVER_NAMES, select, select_for_many, select_with};
pub use environment::{Environment, check_file};
pub use error::ClusterError;
pub use internal_commands::run_internal_command;
pub use leftovers::{CleanUp, clean_up, clean_up_before};
pub use network::door::{Door, Entrance};
pub use network::network_programs::network_command;
pub use node::{Attached, Node, NodeSpec};
pub use own_task::OwnTask;
pub use progress::{Progress, progress_to_stderr};
pub use register::place_of_private_folders;
pub use user_command::{COMMAND_TIME, SERVERS_PASSWORD, UserCommand};

/// Parts whose tests need root, an engine or a network (in `tests/cluster`), and helpers of several crates.
#[doc(hidden)]
pub mod for_tests {
    pub use crate::cluster_folder::ClusterFolder;
    pub use crate::debian::for_tests::*;
    pub use crate::drivers::docker::{name_of_run, of_run};
    pub use crate::eventually::eventually;
    pub use crate::file_lock::{FileLock, lock_blocking};
    pub use crate::leftovers::end_all_in;
}

/// The beginning of the agent's line in a node's log that says which limit the node's programs went over.
pub const LIMIT_NOTE: &str = "-- limit: ";
