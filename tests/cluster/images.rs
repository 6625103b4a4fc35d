//! Images and root file systems, made for real, and what `doctor` finds.

use crate::common::*;
use fencepost_cluster::{doctor, image_store, images};

/// Servers run out of an unpacked root file system, whatever this machine has installed.
#[tokio::test(flavor = "multi_thread")]
async fn servers_run_out_of_root_file_systems() {
    let driver = driver("local").await;
    let spec = spec("rootfs", &[("n1", "redis"), ("n2", "etcd"), ("c1", "client")]);
    let cluster = start(&*driver, &spec).await;
    let [n1, n2, c1] = ["n1", "n2", "c1"].map(|name| cluster.node(name).unwrap());
    start_redis(n1).await;
    assert!(output(n2, &["etcd", "--version"]).await.contains("etcd Version"));
    assert!(output(c1, &["iptables", "--version"]).await.contains("iptables"));
    assert!(output(n1, &["tc", "-V"]).await.contains("iproute2"));
    // What the image is made of cannot be changed by a node; its own folders can.
    let denied = n1.put("/etc/passwd", b"").await.unwrap_err().0;
    assert!(denied.contains("Read-only file system"), "{denied}");
    n1.put("/tmp/own", b"").await.unwrap();
    assert!(n2.get("/tmp/own").await.is_err());
    // Nor do they go from under it.
    let refused = image_store::remove(&fencepost_cluster::progress_to_stderr()).await.unwrap_err().0;
    assert!(refused.starts_with("a run uses or makes a root file system in "), "{refused}");
    assert!(output(n2, &["etcd", "--version"]).await.contains("etcd Version"));
    stop(cluster, &spec).await;

    let made = image_store::list().await.unwrap();
    for name in ["redis", "etcd", "client"] {
        let is_it = |made: &&images::StoredItem| {
            made.name == name && made.kind == images::Kind::RootFileSystem && made.current
        };
        let found = made.iter().find(is_it);
        let found = found.unwrap_or_else(|| panic!("{name} is not in {made:?}"));
        assert!(found.bytes > 10 << 20, "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs every night, by .ci/nightly"]
async fn the_engine_has_every_image_once_it_is_built_by_night() {
    driver("docker").await;
    image_store::build(&[], &options()).await.unwrap();
    let made = image_store::list().await.unwrap();
    for name in ["redis", "etcd", "zookeeper", "postgres", "mariadb", "client"] {
        let is_it = |made: &&images::StoredItem| {
            made.name == name && made.kind == images::Kind::EngineImage && made.current
        };
        assert!(made.iter().any(|made| is_it(&made)), "{name} is not in {made:?}");
    }
    let unknown = image_store::build(&["mysql".to_owned()], &options()).await;
    let refused = unknown.unwrap_err().0;
    assert!(refused.starts_with("there is no image mysql; there are redis, valkey, etcd, "), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_what_to_do_about_every_trouble() {
    let checks = doctor::examine_with(options()).await.checks;
    for check in &checks {
        println!("{} {} {:?} {} {:?}", check.area, check.name, check.answer, check.detail, check.remedy);
        assert!(!check.detail.is_empty(), "{check:?}");
        assert_eq!(check.answer == doctor::Answer::Yes, check.remedy.is_none(), "{check:?}");
    }
    for area in ["docker", "local", "images"] {
        assert!(checks.iter().any(|check| check.area == area), "{area} is not in {checks:?}");
    }
}
