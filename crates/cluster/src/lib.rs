//! What a node is (processes, signals, address, files), and the drivers that start nodes.

mod driver;
mod error;
mod node;
pub mod protocol;

pub use driver::{Capability, Cluster, ClusterSpec, Driver};
pub use error::ClusterError;
pub use node::{Attached, Node, NodeSpec, Role};
