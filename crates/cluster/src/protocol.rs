//! What the controller and the agent inside a node say to each other: JSON lines over a pipe.
//!
//! The agent is process 1 of its node: it starts the server, signals it, runs commands, keeps files, and
//! hosts the tools that faults need (clocks, packets, disks). When its standard input closes, however the
//! controller died, it exits, and the kernel ends everything in the node with it.

use crate::ClusterError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest line that either side accepts, in bytes. A command's output, or a file, is one line.
pub const LINE_MAX: usize = 256 << 20;

/// One request of the controller. Answers carry the same `id` and may come in another order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    pub id: u64,
    #[serde(flatten)]
    pub op: Op,
}

/// What an agent can be asked to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Op {
    /// Starts the service, or starts it again after it ended. Answers its process number inside the node.
    Start { service: Service },
    /// Sends a signal to a process of this node (by its number inside the node).
    Signal { pid: i32, signal: i32 },
    /// The same to the process and all its descendants. Answers whether it was still there.
    SignalTree { pid: i32, signal: i32 },
    /// Waits until the process (a service of this agent, or any other) is gone.
    AwaitExit { pid: i32, timeout_ms: u64 },
    /// Answers the state letter of the process in /proc (`R`, `S`, `T`, `Z`, …); none if there is none.
    State { pid: i32 },
    /// Runs a command to its end. Answers an [`CommandOutput`].
    Exec { argv: Vec<String>, timeout_ms: u64 },
    /// Writes a file (`base64`), with its folders.
    Put { path: String, content: String },
    /// Reads a file. Answers its content in base64.
    Get { path: String },
    /// Removes a file or folder with all that is in it; none there is no error.
    Remove { path: String },
    /// Opens a TCP connection. Answers how many milliseconds that took, or why it failed.
    Connect { address: String, timeout_ms: u64 },
    /// Ends the node's programs when they use more than this. `counted`: the kernel counts memory.
    Limit { limits: NodeLimits, counted: bool },
    /// Kills all programs of the node. Answers nothing.
    EndAll,
    /// Answers nothing if the program of this command can be started.
    Check { argv: Vec<String> },
    /// Calls a tool of this agent. `{data}` in its texts stands for the node's data folder.
    Tool { name: String, args: Value },
}

/// Programs and threads of a limited node: runtimes start dozens, a fork bomb reaches every number.
pub(crate) const TASKS_MAX: u64 = 5000;

/// What the programs of a node may use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLimits {
    pub memory_bytes: u64,
    /// In the data folder, which lies in memory. What is in it counts as memory, too.
    pub disk_bytes: u64,
}

/// Files that the data folder of a node with limits has room for: each takes memory of the kernel.
pub(crate) const FILES_MAX: u64 = 20_000;

impl NodeLimits {
    /// What a node did whose programs used more memory than this, in words.
    pub(crate) fn too_much_memory(self) -> String {
        format!("used more than {} MiB of memory, the limit of --client-memory", self.memory_bytes >> 20)
    }

    /// Options of the file system in memory that is its data folder.
    pub(crate) fn of_data_folder(self) -> String {
        format!("mode=755,size={},nr_inodes={FILES_MAX}", self.disk_bytes)
    }
}

/// A long-running program of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Service {
    pub name: String,
    /// The program and its arguments. `{data}` stands for the node's data folder.
    pub argv: Vec<String>,
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The program refuses to run as root. In a node without other users (`local`, without root) it runs as
    /// user 65534 of a namespace of its own; elsewhere it starts as root, and changes its user by itself.
    #[serde(default)]
    pub refuses_root: bool,
}

/// How a command ended. `code` is none where a signal or the time-out ended it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromAgent {
    Hello {
        version: String,
    },
    Done {
        id: u64,
        answer: Result<Value, ClusterError>,
    },
    Log {
        service: String,
        line: String,
    },
    /// A service was started; comes before the answer that says so.
    Started {
        service: String,
        pid: i32,
    },
    /// A service ended without having been asked to by `Signal`, or after it.
    Exited {
        service: String,
        pid: i32,
        end: ServiceEnd,
    },
    /// For so long, until now, the machine gave the programs of the node hardly any time.
    Stalled {
        ms: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceEnd {
    /// As a clause: `was ended by SIGKILL`, `ended by itself, with code 1`.
    pub status: String,
    /// Number of the signal that ended it, if one did.
    pub signal: Option<i32>,
}
