//! Servers in one of their versions: what is asked for is what runs, and the faults of servers work on it.
//! What differs between two versions of etcd, the scenario etcd-clock-comes-back shows.

use crate::common::{fencepost, test, test_until, under};
use fencepost_history::Kind;

under!(
    local: [another_version_runs_and_its_clock_is_moved],
    local_by_night: [every_release_runs],
    docker: [another_version_runs_and_its_clock_is_moved],
    docker_by_night: [every_release_runs],
);

fn another_version_runs_and_its_clock_is_moved(driver: &str) {
    let ran = test_until(
        &format!("--driver {driver} --lock redis-single@valkey-8.1 --nemesis clock-jump --time-limit 5s"),
        |_| (),
        |ran| ran.stages("inject", Kind::Ok).iter().any(|seen| seen["effective"] == true),
    );
    assert!(ran.stdout.contains("valkey-server 8.1."), "{}", ran.stdout);
}

/// Every release in the table, those of a server that a lock.toml describes among them.
fn every_release_runs(driver: &str) {
    let of = |lock: &str, servers: &[&str]| -> Vec<String> {
        servers.iter().map(|server| format!("{lock} --server {server}")).collect()
    };
    let runs = [
        of("redis-single", &["redis-7.0", "redis-8.0", "valkey-8.0", "valkey-8.1", "valkey-9.1"]),
        of("etcd", &["etcd-3.4", "etcd-3.5"]),
        of("zookeeper-sequential", &["zookeeper-3.8", "zookeeper-3.9"]),
        of("postgres-row", &["postgres-15", "postgres-17", "postgres-18"]),
        of("adapters/mariadb", &["mariadb-10.11", "mariadb-11.8"]),
    ];
    for arguments in runs.concat() {
        let ran = test(&format!("--driver {driver} --lock {arguments} --time-limit 3s"));
        assert_eq!(ran.code, 0, "{arguments}: {}", ran.stdout);
        let version = arguments.rsplit_once('-').expect("a version").1;
        let run = std::fs::read_to_string(ran.folder().join("run.toml")).expect("its settings");
        let servers = run.lines().find(|line| line.starts_with("servers")).expect("its servers");
        assert!(servers.contains(version), "{arguments}: {servers}");
    }
}

#[test]
fn a_server_that_cannot_be_had_is_refused_with_those_that_can() {
    for (arguments, expected) in [
        ("--lock redlock@redis-6.2", "it runs on redis-7.0, redis-8.0, valkey-8.0"),
        ("--lock redlock --server redis-6.2", "of redis there are redis-7.0, redis-8.0"),
        ("--lock etcd --server valkey-9.1", "etcd does not run on valkey-9.1; it runs on etcd-3.4, etcd-3.5"),
        ("--lock redlock@redis-7.0 --server redis-8.0", "says another server"),
        ("--lock canary-nolock --server redis-8.0", "--server is no option of the lock canary-nolock"),
        ("--lock adapters/mariadb --server redis-8.0", "have no redis-server"),
    ] {
        let words: Vec<&str> = std::iter::once("test").chain(arguments.split(' ')).collect();
        let output = fencepost(&words).output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(254), "{arguments}: {said}");
        assert!(said.contains(expected), "{arguments}: {said}");
    }
}
