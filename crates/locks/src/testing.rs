//! For tests: how an operation ended, in short; and a node that does nothing but answer commands.

use async_trait::async_trait;
use fencepost_cluster::protocol::{Limits, Output, Service};
use fencepost_cluster::{Attached, ClusterError, Node};
use fencepost_history::{Completion, NodeKind};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// A completion in short: `ok {"token":7}`, `fail taken`, `info timeout`.
pub(crate) fn ended(completion: &Completion) -> String {
    match completion {
        Completion::Ok(value) => format!("ok {value}"),
        Completion::Fail(why) => format!("fail {}", why.code_name()),
        Completion::Info(why) => format!("info {}", why.code_name()),
    }
}

/// A server's node on which every command ends alike.
pub(crate) struct StubNode {
    /// What each command prints, and to where; it fails where there is something on standard error.
    pub(crate) stdout: &'static str,
    pub(crate) stderr: &'static str,
    /// Whether the service still runs.
    pub(crate) runs: bool,
}

impl StubNode {
    pub(crate) fn nodes(self) -> [Arc<dyn Node>; 1] {
        [Arc::new(self)]
    }
}

/// What it does not do; a test that needs it would fail saying so.
fn only_commands<T>() -> Result<T, ClusterError> {
    Err(ClusterError::new("a stub node only answers commands"))
}

#[async_trait]
impl Node for StubNode {
    fn name(&self) -> &str {
        "n1"
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Server
    }

    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    fn service_pid(&self, _name: &str) -> Option<i32> {
        self.runs.then_some(5)
    }

    async fn exec(&self, _argv: &[&str], _timeout: Duration) -> Result<Output, ClusterError> {
        let code = Some(i32::from(!self.stderr.is_empty()));
        Ok(Output { code, stdout: self.stdout.to_owned(), stderr: self.stderr.to_owned() })
    }

    async fn start(&self, _service: &Service) -> Result<i32, ClusterError> {
        only_commands()
    }

    async fn signal(&self, _pid: i32, _signal: i32) -> Result<(), ClusterError> {
        only_commands()
    }

    async fn signal_tree(&self, _pid: i32, _signal: i32) -> Result<bool, ClusterError> {
        only_commands()
    }

    async fn await_exit(&self, _pid: i32, _timeout: Duration) -> Result<(), ClusterError> {
        only_commands()
    }

    async fn state(&self, _pid: i32) -> Result<Option<char>, ClusterError> {
        only_commands()
    }

    async fn put(&self, _path: &str, _content: &[u8]) -> Result<(), ClusterError> {
        only_commands()
    }

    async fn get(&self, _path: &str) -> Result<Vec<u8>, ClusterError> {
        only_commands()
    }

    async fn remove(&self, _path: &str) -> Result<(), ClusterError> {
        only_commands()
    }

    async fn connect(
        &self,
        _address: &str,
        _timeout: Duration,
    ) -> Result<std::io::Result<Duration>, ClusterError> {
        only_commands()
    }

    async fn tool(&self, _name: &str, _args: Value) -> Result<Value, ClusterError> {
        only_commands()
    }

    async fn limit(&self, _limits: Limits) -> Result<(), ClusterError> {
        only_commands()
    }

    async fn attach(&self, _argv: &[String]) -> Result<Attached, ClusterError> {
        only_commands()
    }
}
