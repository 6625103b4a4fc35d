//! Servers in one of their versions: what is asked for is what runs, and the faults of servers work on it.
//! What differs between two versions of etcd, the scenario etcd-clock-comes-back shows.

use crate::common::{planned, test, under};
use fencepost_cluster::images::RELEASES;

under!(
    local: [another_version_runs_and_its_clock_is_moved],
    local_by_night: [every_release_runs],
    docker: [],
    docker_by_night: [another_version_runs_and_its_clock_is_moved, every_release_runs],
);

/// When the lock is granted for the first time.
const CLOCK_JUMP: &str =
    "[[fault]]\nwhen = 'any acquire'\nfor = '1s'\nfault = 'clock-jump'\non = ['n1']\nwall = '30s'\n";

fn another_version_runs_and_its_clock_is_moved(driver: &str) {
    let args = format!("--driver {driver} --lock redis-single@valkey-8.1 --brief --time-limit 300s");
    let ran = planned(CLOCK_JUMP, &args);
    ran.assert_faults_real();
    assert!(ran.stdout.contains("valkey-server 8.1."), "{}", ran.stdout);
}

/// Every release in the table.
fn every_release_runs(driver: &str) {
    for release in RELEASES.iter() {
        let mut locks = fencepost_locks::registry().iter();
        let lock = locks.find(|lock| lock.service.servers.contains(&release.server));
        let lock = lock.expect("a lock that runs on it").name;
        let arguments = format!("{lock} --server {release}");
        let ran = test(&format!("--driver {driver} --lock {arguments} --acquisitions 10 --time-limit 120s"));
        assert_eq!(ran.code, 0, "{arguments}: {}", ran.stdout);
        let run = std::fs::read_to_string(ran.folder().join("run.toml")).expect("its settings");
        let servers = run.lines().find(|line| line.starts_with("servers")).expect("its servers");
        assert!(servers.contains(release.version), "{arguments}: {servers}");
    }
}
