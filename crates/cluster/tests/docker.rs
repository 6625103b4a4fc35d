//! Real nodes under the driver `local`.

mod common;

use common::*;
use fencepost_cluster::protocol::Service;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn quick_docker() {
    let begun = std::time::Instant::now();
    let driver = driver("docker").await;
    let cluster = driver.start(&spec("quick_docker", &["n1", "n2"], "redis")).await.unwrap();
    eprintln!("up after {:?}", begun.elapsed());
    let node = cluster.node("n1").unwrap();
    let out = node
        .exec(&["sh", "-c", "id; ps ax; mount; ip a; hostname; ls -la / /data"], Duration::from_secs(5))
        .await
        .unwrap();
    eprintln!("{}{}", out.stdout, out.stderr);
    let service = Service {
        name: "redis".into(),
        argv: [
            "redis-server",
            "--dir",
            "{data}",
            "--save",
            "",
            "--bind",
            "0.0.0.0",
            "--protected-mode",
            "no",
        ]
        .map(str::to_owned)
        .into(),
        env: vec![],
    };
    let pid = node.start(&service).await.unwrap();
    eprintln!("pid {pid} {:?}", node.service_pid("redis"));
    let begun = std::time::Instant::now();
    cluster.stop().await.unwrap();
    eprintln!("down after {:?}", begun.elapsed());
}
