//! For tests: a node in memory.

use crate::ClusterError;
use crate::node::{Attached, Node};
use crate::protocol::{CommandOutput, Service};
use async_trait::async_trait;
use fencepost_history::NodeKind;
use serde_json::Value;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The server `n1` in memory. A test implements what its subject uses; every other method fails.
#[async_trait]
pub trait StubNode: Send + Sync {
    fn name(&self) -> &str {
        "n1"
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Server
    }

    fn service_pid(&self, name: &str) -> Option<i32>;

    async fn start(&self, _service: &Service) -> Result<i32, ClusterError> {
        unexpected("start")
    }

    async fn signal(&self, _pid: i32, _signal: i32) -> Result<(), ClusterError> {
        unexpected("signal")
    }

    async fn signal_tree(&self, _pid: i32, _signal: i32) -> Result<bool, ClusterError> {
        unexpected("signal_tree")
    }

    async fn await_exit(&self, _pid: i32, _timeout: Duration) -> Result<(), ClusterError> {
        unexpected("await_exit")
    }

    async fn state(&self, _pid: i32) -> Result<Option<char>, ClusterError> {
        unexpected("state")
    }

    async fn exec(&self, _argv: &[&str], _timeout: Duration) -> Result<CommandOutput, ClusterError> {
        unexpected("exec")
    }

    async fn connect(
        &self,
        _address: &str,
        _timeout: Duration,
    ) -> Result<io::Result<Duration>, ClusterError> {
        unexpected("connect")
    }

    async fn tool(&self, _name: &str, _args: Value) -> Result<Value, ClusterError> {
        unexpected("tool")
    }
}

fn unexpected<T>(method: &str) -> Result<T, ClusterError> {
    Err(ClusterError::new(format!("this stub of a node has no method {method}")))
}

#[async_trait]
impl<Stub: StubNode> Node for Stub {
    fn name(&self) -> &str {
        StubNode::name(self)
    }

    fn kind(&self) -> NodeKind {
        StubNode::kind(self)
    }

    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    async fn start(&self, service: &Service) -> Result<i32, ClusterError> {
        StubNode::start(self, service).await
    }

    fn service_pid(&self, name: &str) -> Option<i32> {
        StubNode::service_pid(self, name)
    }

    async fn signal(&self, pid: i32, signal: i32) -> Result<(), ClusterError> {
        StubNode::signal(self, pid, signal).await
    }

    async fn signal_tree(&self, pid: i32, signal: i32) -> Result<bool, ClusterError> {
        StubNode::signal_tree(self, pid, signal).await
    }

    async fn await_exit(&self, pid: i32, timeout: Duration) -> Result<(), ClusterError> {
        StubNode::await_exit(self, pid, timeout).await
    }

    async fn state(&self, pid: i32) -> Result<Option<char>, ClusterError> {
        StubNode::state(self, pid).await
    }

    async fn exec(&self, argv: &[&str], timeout: Duration) -> Result<CommandOutput, ClusterError> {
        StubNode::exec(self, argv, timeout).await
    }

    async fn put(&self, _path: &str, _content: &[u8]) -> Result<(), ClusterError> {
        unexpected("put")
    }

    async fn get(&self, _path: &str) -> Result<Vec<u8>, ClusterError> {
        unexpected("get")
    }

    async fn remove(&self, _path: &str) -> Result<(), ClusterError> {
        unexpected("remove")
    }

    async fn connect(&self, address: &str, timeout: Duration) -> Result<io::Result<Duration>, ClusterError> {
        StubNode::connect(self, address, timeout).await
    }

    async fn tool(&self, name: &str, args: Value) -> Result<Value, ClusterError> {
        StubNode::tool(self, name, args).await
    }

    async fn attach(&self, _argv: &[String]) -> Result<Attached, ClusterError> {
        unexpected("attach")
    }
}
