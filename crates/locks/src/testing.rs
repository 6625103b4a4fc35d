//! For tests: how an operation ended, in short; and a node that does nothing but answer commands.

use async_trait::async_trait;
use fencepost_cluster::protocol::CommandOutput;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::{Completion, NodeKind};
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
pub(crate) struct AnsweringNode {
    /// What each command prints, and to where; it fails where there is something on standard error.
    pub(crate) stdout: &'static str,
    pub(crate) stderr: &'static str,
    pub(crate) runs: bool,
}

impl AnsweringNode {
    pub(crate) fn nodes(self) -> [Arc<dyn Node>; 1] {
        [Arc::new(self)]
    }
}

#[async_trait]
impl Node for AnsweringNode {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    fn name(&self) -> &str {
        "n1"
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Server
    }

    fn service_pid(&self, _name: &str) -> Option<i32> {
        self.runs.then_some(5)
    }

    async fn exec(&self, _argv: &[&str], _timeout: Duration) -> Result<CommandOutput, ClusterError> {
        let code = Some(i32::from(!self.stderr.is_empty()));
        Ok(CommandOutput { code, stdout: self.stdout.to_owned(), stderr: self.stderr.to_owned() })
    }
}
