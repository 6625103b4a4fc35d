//! Nodes on which nothing that is done has an effect: a process goes on whatever signal it gets, connections
//! come about whatever the packet filter is asked for, and every look finds what the one before it found.

use crate::context::{FaultContext, RunningService, ServerOrders};
use crate::plan::topology::Topology;
use async_trait::async_trait;
use fencepost_cluster::protocol::{CommandOutput, Service};
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::NodeKind;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

const PID: i32 = 7;

struct Untouched {
    name: String,
    signals: Arc<Mutex<Vec<i32>>>,
}

pub(crate) fn untouched(topology: &Topology) -> (FaultContext, Arc<Mutex<Vec<i32>>>) {
    let signals = Arc::<Mutex<Vec<i32>>>::default();
    let node = |name: &String| -> Arc<dyn Node> {
        Arc::new(Untouched { name: name.clone(), signals: signals.clone() })
    };
    let nodes: Vec<Arc<dyn Node>> = topology.nodes().map(node).collect();
    let service =
        Service { name: "redis".to_owned(), argv: Vec::new(), env: Vec::new(), refuses_root: false };
    let running = RunningService { service, port: 6379 };
    let serving = topology.servers.iter().chain(&topology.storage);
    let services: HashMap<_, _> = serving.map(|name| (name.clone(), running.clone())).collect();
    let context = FaultContext::new(&nodes, services, Box::new(|_| Some(PID)), None, None);
    (context.with_orders(Some(Arc::new(TakenOrders))), signals)
}

#[async_trait]
impl Node for Untouched {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Server
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn service_pid(&self, _name: &str) -> Option<i32> {
        Some(PID)
    }

    async fn signal(&self, _pid: i32, signal: i32) -> Result<(), ClusterError> {
        self.signals.lock().push(signal);
        Ok(())
    }

    async fn signal_tree(&self, _pid: i32, signal: i32) -> Result<bool, ClusterError> {
        self.signals.lock().push(signal);
        Ok(true)
    }

    async fn await_exit(&self, pid: i32, _timeout: Duration) -> Result<(), ClusterError> {
        Err(ClusterError::new(format!("process {pid} is still there")))
    }

    async fn state(&self, _pid: i32) -> Result<Option<char>, ClusterError> {
        Ok(Some('S'))
    }

    async fn exec(&self, _argv: &[&str], _timeout: Duration) -> Result<CommandOutput, ClusterError> {
        Ok(CommandOutput { code: Some(0), stdout: String::new(), stderr: String::new() })
    }

    async fn connect(
        &self,
        _address: &str,
        _timeout: Duration,
    ) -> Result<std::io::Result<Duration>, ClusterError> {
        Ok(Ok(Duration::from_millis(1)))
    }

    async fn tool(&self, name: &str, args: Value) -> Result<Value, ClusterError> {
        let right = json!({"wall_ns": 0, "monotonic_ns": 0, "error_ns": 0});
        let probe = json!({"full": false, "ms": 1.0});
        Ok(match (name, args["do"].as_str()) {
            ("clock", _) => json!({
                "before": right, "after": right, "mechanism": "vdso", "due_wall_ns": 0, "due_monotonic_ns": 0,
            }),
            ("disk", _) => json!({"before": probe, "after": probe}),
            ("threads", _) => json!({"tid": PID, "name": "redis-server", "state": "S", "others": 3}),
            ("names", _) => json!({"n1": ["198.18.0.2"]}),
            ("packets", Some("set")) => json!("emulator"),
            ("packets", Some("probe")) => json!({
                "sent": args["count"], "answered": args["count"], "duplicates": 0, "overtaken": 0,
                "median_ms": 1.0, "least_ms": 1.0, "most_ms": 1.0,
            }),
            ("packets", Some("keep")) => Value::Null,
            ("packets", Some("look-at-kept")) => json!({"all": 1, "silent": 0}),
            ("packets", Some("listen")) => json!(1024),
            ("packets", Some("streams")) => args["count"].clone(),
            _ => return Err(ClusterError::new(format!("{name} was called with {args}"))),
        })
    }
}

/// Servers that take every write.
struct TakenOrders;

#[async_trait]
impl ServerOrders for TakenOrders {
    async fn begin(&self, _server: &str, _order: &str) -> Result<(Value, bool), ClusterError> {
        Ok((Value::Null, false))
    }

    async fn end(&self, _server: &str, _order: &str) -> Result<Value, ClusterError> {
        Ok(Value::Null)
    }
}
