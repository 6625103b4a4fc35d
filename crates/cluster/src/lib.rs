//! What a node is (processes, signals, address, files), and the drivers that start nodes.

pub mod agent;
mod capabilities;
mod clocks;
mod connection;
mod docker;
pub mod doctor;
mod driver;
mod error;
mod hidden;
pub mod images;
mod local;
mod log;
mod node;
mod probe;
mod program;
mod progress;
pub mod protocol;
mod state;
mod subnet;

pub use clocks::ClockMechanism;
pub use driver::{Capability, Cluster, ClusterSpec, Driver, Options, select, select_with};
pub use error::ClusterError;
pub use hidden::hidden_main;
pub use node::{Attached, Node, NodeSpec, Role};
pub use progress::{Progress, progress_to_stderr};
