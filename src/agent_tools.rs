//! The tools of the agents inside nodes: what faults and readiness probes need.

use fencepost_cluster::agent::Tool;
use fencepost_nemesis::{ClockTool, DiskTool, PacketsTool};
use serde_json::Value;

/// One line a tool.
pub fn all() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(ClockTool),
        Box::new(DiskTool::default()),
        Box::new(PacketsTool::default()),
        Box::new(HttpGet),
    ]
}

/// Asks a server of the node over HTTP, for backends whose servers tell their health that way.
struct HttpGet;

impl Tool for HttpGet {
    fn name(&self) -> &'static str {
        "http-get"
    }

    fn call(&self, args: Value) -> Result<Value, String> {
        // Tools run on a thread of their own, where waiting is allowed.
        tokio::runtime::Handle::current().block_on(fencepost_locks::http_get(args))
    }
}
