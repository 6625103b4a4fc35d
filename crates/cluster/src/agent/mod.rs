//! The agent: process 1 of every node, Fencepost's hands inside it.
//!
//! It takes requests from its standard input (see [`crate::protocol`]). When that closes, however the
//! controller died, it exits, and the kernel ends every process of the node with it.
//!
//! Everything runs on one thread, but for the tools. So nothing can reap a child between its start and the
//! moment it is known here, and a service's end is always reported before the answer that its process is
//! gone.

mod attach;
mod children;
mod disk_use;
mod files;
mod limits;
mod memory_use;
mod operations;
mod output;
mod programs;
mod server;
mod socket_memory;
mod stalls;

pub use children::{descendants, output_of};
pub use operations::{Tool, ToolError};
pub use server::{AgentOptions, run};
