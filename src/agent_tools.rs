//! The tools of the agents inside nodes: what faults and readiness probes need.

use fencepost_cluster::DataTool;
use fencepost_cluster::agent::Tool;
use fencepost_locks::HttpTool;
use fencepost_nemesis::{ClockTool, DiskTool, NamesTool, PacketsTool, ThreadsTool};

pub fn all() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(ClockTool::default()),
        Box::new(DiskTool::default()),
        Box::new(PacketsTool::default()),
        Box::new(NamesTool),
        Box::new(ThreadsTool::default()),
        Box::new(DataTool),
        Box::new(HttpTool),
    ]
}
