//! What the tests of both drivers share: each scenario runs under both.

pub mod isolation;
pub mod leftovers;
#[path = "../../needs.rs"]
pub mod needs;
pub mod scenarios;

use fencepost_cluster::protocol::Service;
use fencepost_cluster::{Cluster, ClusterSpec, Driver, DriverOptions, Node, NodeSpec};
use fencepost_history::NodeKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ends only what hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The driver of that name. Where it cannot work the test fails, and says why.
pub async fn driver(name: &str) -> Box<dyn Driver> {
    needs::check();
    match fencepost_cluster::select_with(name, options()).await {
        Ok(driver) => driver,
        Err(error) => panic!("this test needs the driver {name}: {error}"),
    }
}

pub fn options() -> DriverOptions {
    // Debian's servers, whatever the user who tests prefers.
    DriverOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_bare_node")),
        machine_programs: false,
        ..DriverOptions::new().unwrap()
    }
}

/// A run of these nodes, named after the test.
pub fn spec(test: &str, nodes: &[(&str, &'static str)]) -> ClusterSpec {
    let run = format!("test-{test}-{}", std::process::id());
    let nodes = nodes
        .iter()
        .map(|(name, image)| NodeSpec {
            name: (*name).to_owned(),
            kind: if *image == "client" { NodeKind::Client } else { NodeKind::Server },
            image,
            may_mount: false,
            environment: None,
            limits: None,
            writes_hosts: false,
        })
        .collect();
    ClusterSpec { logs: logs(&run), run, nodes }
}

pub fn logs(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fencepost-logs-{run}"))
}

pub async fn start(driver: &dyn Driver, spec: &ClusterSpec) -> Cluster {
    driver.start(spec).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Stops the cluster and removes its logs.
pub async fn stop(cluster: Cluster, spec: &ClusterSpec) {
    cluster.stop().await.unwrap();
    let _ = std::fs::remove_dir_all(&spec.logs);
}

pub fn redis() -> Service {
    let argv =
        ["redis-server", "--dir", "{data}", "--save", "", "--bind", "0.0.0.0", "--protected-mode", "no"];
    Service {
        name: "redis".to_owned(),
        argv: argv.map(str::to_owned).to_vec(),
        env: Vec::new(),
        refuses_root: false,
    }
}

/// Starts Redis on the node and waits until it accepts connections.
pub async fn start_redis(node: &Arc<dyn Node>) -> i32 {
    let pid = node.start(&redis()).await.unwrap();
    let address = format!("{}:6379", node.address());
    eventually("Redis accepts connections", async || node.connect(&address, PATIENCE).await.unwrap().is_ok())
        .await;
    pid
}

/// What a command prints inside the node. It must succeed.
pub async fn output(node: &Arc<dyn Node>, argv: &[&str]) -> String {
    let output = node.exec(argv, PATIENCE).await.unwrap();
    assert_eq!(output.code, Some(0), "{argv:?} on {}: {output:?}", node.name());
    output.stdout
}

/// Waits until it is so.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "still not so: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
