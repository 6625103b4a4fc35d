//! Locks of one's own on servers that Fencepost does not know: a table `[service]` in `lock.toml`.

use crate::common::{planned, root, test, under};
use fencepost_checker::{Outcome, Whose};
use fencepost_history::Kind;
use std::fs::write;

under!(
    local: [the_leader_is_the_one_that_a_command_names],
    local_by_night: [
        mariadb_holds_without_faults,
        a_server_of_pypi_holds_without_faults,
        every_fault_of_servers_takes_effect_on_mariadb,
        memcached_holds_until_the_lock_is_evicted_or_deleted_blindly,
        s3_holds_where_the_write_has_a_condition,
        get_lock_holds_on_one_node_of_galera_only,
    ],
    docker: [],
    docker_by_night: [
        mariadb_holds_without_faults,
        a_server_of_pypi_holds_without_faults,
        every_fault_of_servers_takes_effect_on_mariadb,
        the_leader_is_the_one_that_a_command_names,
        memcached_holds_until_the_lock_is_evicted_or_deleted_blindly,
        s3_holds_where_the_write_has_a_condition,
        get_lock_holds_on_one_node_of_galera_only,
    ],
);

/// A fault of each kind on the server: how long it lasts in milliseconds, and its parameters.
const FAULTS: &[(&str, u32, &str)] = &[
    ("clock-jump", 500, "wall_ms = 30000\nmonotonic_ms = 30000"),
    ("clock-freeze", 500, ""),
    ("pause", 500, "stop_ms = 50\nrun_ms = 20"),
    ("partition", 500, "groups = [['c1'], ['n1']]"),
    ("delay", 500, "delay_ms = 50\npeers = ['c1', 'c2']"),
    // Before the server is started again, since one that recovers deletes files, and then there is room.
    ("disk-full", 500, "bytes_left = 100"),
    ("disk-slow", 500, "fsync_ms = 50"),
    ("kill", 500, ""),
    ("power-loss", 500, "flicker_ms = 50"),
];

fn mariadb_holds_without_faults(driver: &str) {
    holds_without_faults("adapters/mariadb", driver, "mariadbd");
}

fn a_server_of_pypi_holds_without_faults(driver: &str) {
    holds_without_faults("tests/locks/fakeredis", driver, "fakeredis 2");
}

fn holds_without_faults(lock: &str, driver: &str, version: &str) {
    let ran =
        test(&format!("--driver {driver} --lock {lock} --hold 20ms --acquisitions 30 --time-limit 30s"));
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains(version), "no version of the server in {}", ran.stdout);
    for verdict in ran.verdict().verdicts {
        assert_eq!(verdict.outcome, Outcome::Valid, "{}: {}", verdict.checker, verdict.summary);
    }
}

fn memcached_holds_until_the_lock_is_evicted_or_deleted_blindly(driver: &str) {
    holds_without_faults("adapters/memcached", driver, "memcached 1");
    is_granted_twice_without_faults("adapters/memcached@small-cache", driver, "--hold 200ms --time-limit 4s");
    // A holder that is later than its lease deletes the lock of the next one.
    let late = "--workload lock --careful --hold 5s --time-limit 14s";
    is_granted_twice_without_faults("adapters/memcached@blind-delete", driver, late);
}

fn s3_holds_where_the_write_has_a_condition(driver: &str) {
    holds_without_faults("adapters/s3", driver, "moto 5");
    is_granted_twice_without_faults("adapters/s3@no-condition", driver, "--hold 200ms --time-limit 5s");
}

fn get_lock_holds_on_one_node_of_galera_only(driver: &str) {
    holds_without_faults("adapters/galera@one-node", driver, "mariadbd");
    is_granted_twice_without_faults("adapters/galera", driver, "--hold 200ms --time-limit 4s");
}

/// Two processes get the lock at once, without any fault: that is the failure of the code in the client.
fn is_granted_twice_without_faults(lock: &str, driver: &str, args: &str) {
    let ran = test(&format!("--driver {driver} --lock {lock} {args}"));
    assert_eq!(ran.code, 1);
    assert!(ran.findings("exclusion", "granted-twice") > 0, "{}", ran.stdout);
    let verdict = ran.verdict();
    assert_eq!(verdict.of_checker("exclusion").unwrap().whose, [Whose::Library]);
}

fn every_fault_of_servers_takes_effect_on_mariadb(driver: &str) {
    let mut when = "any acquire".to_owned();
    let mut plan = String::new();
    for (fault, for_ms, parameters) in FAULTS {
        plan += &format!(
            "[[fault]]\nwhen = '{when}'\nfault = '{fault}'\non = ['n1']\nfor_ms = {for_ms}\n{parameters}\n\n"
        );
        when = format!("{fault} healed");
    }
    let ran = planned(&plan, &format!("--driver {driver} --lock adapters/mariadb --brief --time-limit 300s"));
    ran.assert_all_effective(&FAULTS.iter().map(|(fault, ..)| *fault).collect::<Vec<_>>());
}

/// The servers are plain Redis, and `echo` says that the second one leads.
fn the_leader_is_the_one_that_a_command_names(driver: &str) {
    let folder = tempfile::tempdir().unwrap();
    let lock = "about = 'three servers'\nclient = 'python3 client.py'\npackages = ['python3']\n\
        files = ['FENCEPOST/kits/python/fencepost.py', 'FENCEPOST/kits/python/example/client.py']\n\
        [service]\nnodes = 3\nprogram = 'redis-server --bind {address} --port {port} --dir {data}'\n\
        packages = ['redis-server']\nport = 6379\nready = 'redis-cli -h {address} -p {port} ping'\nleader = 'echo n2'\n";
    write(folder.path().join("lock.toml"), lock.replace("FENCEPOST", root())).unwrap();
    let plan = "[[fault]]\nafter = '500ms'\nfault = 'leader-kill'\non = ['leader']\nfor = '500ms'\n";
    let folder = folder.path().display();
    let ran = planned(plan, &format!("--driver {driver} --lock {folder} --brief --time-limit 300s"));
    ran.assert_faults_real();
    let injected = ran.stages("inject", Kind::Ok);
    assert!(injected.iter().any(|value| value.to_string().contains("\"n2\"")), "{injected:?}");
}
