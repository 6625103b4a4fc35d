//! What the tests of all drivers share.

use fencepost_cluster::{ClusterSpec, Driver, NodeSpec, Options, Role};
use std::path::PathBuf;

pub async fn driver(name: &str) -> Box<dyn Driver> {
    let options =
        Options { program: PathBuf::from(env!("CARGO_BIN_EXE_fencepost-bare")), ..Options::new().unwrap() };
    fencepost_cluster::select_with(name, options).await.unwrap()
}

pub fn spec(run: &str, names: &[&str], image: &'static str) -> ClusterSpec {
    let nodes =
        names.iter().map(|name| NodeSpec { name: (*name).to_owned(), role: Role::Server, image }).collect();
    ClusterSpec {
        run: format!("{run}-{}", std::process::id()),
        nodes,
        logs: std::env::temp_dir().join("fencepost-logs"),
    }
}
