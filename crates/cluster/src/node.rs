//! A node: something with an address, a clock, a disk and processes of its own, in which commands run as
//! root. Everything goes over its agent. Drivers differ in how they start nodes and attach programs.

use crate::ClusterError;
use crate::environment::Environment;
use crate::protocol::{CommandOutput, NodeLimits, Service, ServiceEnd};
use async_trait::async_trait;
use fencepost_history::NodeKind;
use serde_json::Value;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast;

#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// `n1` to `n5`, `storage`, `c1` to `c5`: unique in its cluster.
    pub name: String,
    pub kind: NodeKind,
    /// Name of an image in [`crate::images`]: `redis`, `etcd`, `zookeeper`, `postgres`, `client`.
    pub image: &'static str,
    /// Whether its agent may mount FUSE over the data folder ([`crate::Capability::Fuse`]), for a fault.
    pub may_mount: bool,
    /// A user's programs, which run in it; the image is then `client`.
    pub environment: Option<Arc<Environment>>,
    /// What its programs may use, checked by the kernel where it can, else by the agent. A line of the agent
    /// in its log, which begins with [`crate::LIMIT_NOTE`], says that they used more, and were ended.
    pub limits: Option<NodeLimits>,
    /// Whether its agent can change `/etc/hosts`, so that names there stand for what the run says.
    pub writes_hosts: bool,
}

impl NodeSpec {
    pub(crate) fn contents(&self) -> NodeContents {
        NodeContents { image: self.image, environment: self.environment.clone() }
    }
}

/// What a node is made of. Nodes with the same contents are made alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeContents {
    pub(crate) image: &'static str,
    pub(crate) environment: Option<Arc<Environment>>,
}

/// The two ends of an attached program's standard streams. Its standard error goes to the node's log.
pub struct Attached {
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
}

/// A running node. All methods fail with one sentence that names the node.
///
/// Of what a node lacks, it says so: a process of this machine has no files of its own, and a node of a test
/// has what the test needs.
#[async_trait]
pub trait Node: Send + Sync {
    fn name(&self) -> &str;
    fn kind(&self) -> NodeKind;
    fn address(&self) -> Ipv4Addr;
    /// What is said of something that this node does not have.
    fn lacks(&self, what: &str) -> ClusterError {
        ClusterError::new(format!("{} has no {what}", self.name()))
    }
    /// Starts a service, or starts it again after it ended. Gives its process number inside the node.
    async fn start(&self, _service: &Service) -> Result<i32, ClusterError> {
        Err(self.lacks("service"))
    }
    /// The process number of a running service; none where it is not running.
    fn service_pid(&self, _name: &str) -> Option<i32> {
        None
    }
    /// How the last process of a service that has ended did so; none where none has, or it is not known.
    fn service_end(&self, _name: &str) -> Option<ServiceEnd> {
        None
    }
    /// Returns when the node is gone, with all that ran in it, though the cluster was not stopped.
    async fn gone(&self) {
        std::future::pending().await
    }
    /// The length of each stall of the node's programs from now on, as it ends; of a long one its parts.
    fn stalls(&self) -> broadcast::Receiver<Duration> {
        broadcast::Sender::new(1).subscribe()
    }
    async fn signal(&self, _pid: i32, _signal: i32) -> Result<(), ClusterError> {
        Err(self.lacks("signals"))
    }
    /// Signals a process and all its descendants. Gives whether it was still there.
    async fn signal_tree(&self, _pid: i32, _signal: i32) -> Result<bool, ClusterError> {
        Err(self.lacks("signals"))
    }
    async fn await_exit(&self, _pid: i32, _timeout: Duration) -> Result<(), ClusterError> {
        Err(self.lacks("processes"))
    }
    /// State letter in /proc; none where there is no such process.
    async fn state(&self, _pid: i32) -> Result<Option<char>, ClusterError> {
        Err(self.lacks("processes"))
    }
    async fn exec(&self, _argv: &[&str], _timeout: Duration) -> Result<CommandOutput, ClusterError> {
        Err(self.lacks("commands"))
    }
    async fn put(&self, _path: &str, _content: &[u8]) -> Result<(), ClusterError> {
        Err(self.lacks("files"))
    }
    async fn get(&self, _path: &str) -> Result<Vec<u8>, ClusterError> {
        Err(self.lacks("files"))
    }
    async fn remove(&self, _path: &str) -> Result<(), ClusterError> {
        Err(self.lacks("files"))
    }
    /// Round trip of a TCP connection to `address` from inside; the inner `Err` says why not.
    async fn connect(&self, _address: &str, _limit: Duration) -> Result<io::Result<Duration>, ClusterError> {
        Err(self.lacks("network"))
    }
    /// Calls a tool of the agent, with what it takes as JSON.
    async fn tool(&self, _name: &str, _args: Value) -> Result<Value, ClusterError> {
        Err(self.lacks("tools"))
    }
    /// Runs a program inside the node, its streams attached to the caller. `argv[0]` `fencepost`: this one.
    async fn attach(&self, _argv: &[String]) -> Result<Attached, ClusterError> {
        Err(self.lacks("programs"))
    }
}
