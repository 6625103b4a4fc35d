//! Servers that exist without the run, as faults see them.

use async_trait::async_trait;
use fencepost_cluster::ClusterError;
use tokio::net::TcpStream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookAction {
    Stop,
    Continue,
    Kill,
    Restart,
}

impl HookAction {
    /// As the hook gets it.
    pub fn name(self) -> &'static str {
        match self {
            HookAction::Stop => "stop",
            HookAction::Continue => "continue",
            HookAction::Kill => "kill",
            HookAction::Restart => "restart",
        }
    }

    pub(crate) fn undo(self) -> HookAction {
        match self {
            HookAction::Stop | HookAction::Continue => HookAction::Continue,
            HookAction::Kill | HookAction::Restart => HookAction::Restart,
        }
    }
}

/// Servers that exist without the run. The engine implements it.
#[async_trait]
pub trait ExistingServers: Send + Sync {
    /// Has the hook do this to a server. Errors: there is no hook, or it failed.
    async fn act(&self, server: &str, action: HookAction) -> Result<(), ClusterError>;
    async fn answers(&self, server: &str) -> bool;
    /// A connection to the server, on which nothing is said.
    async fn connect(&self, server: &str) -> std::io::Result<TcpStream>;
}
