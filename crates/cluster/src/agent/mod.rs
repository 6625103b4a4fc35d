//! The agent: process 1 of every node, Fencepost's hands inside it.
//!
//! It takes requests from its standard input (see [`crate::protocol`]). When that closes, however the
//! controller died, it exits, and the kernel ends every process of the node with it. All but the tools runs
//! on one thread, so a service's end is reported before the answer that its process is gone.

mod attach;
mod children;
mod files;
mod limits;
mod memory_use;
mod operations;
mod output;
mod programs;
mod server;
mod stalls;

pub(crate) use children::processes;
pub use children::{await_exit, descendants, output_of, signal, signal_tree, state};
pub use operations::{Tool, ToolError};
pub use server::{AgentOptions, run};
