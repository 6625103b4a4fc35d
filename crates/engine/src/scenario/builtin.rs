//! The scenarios of the debate, which are part of the program: one file each, and one line here.

use super::file;
use super::model::Scenario;
use std::sync::LazyLock;

/// Names and texts of files in `scenarios/`.
macro_rules! scenarios {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/", $name, ".toml")))),+]
    };
}

/// Every file, in the order of the debate: one Redis node, Redis with replicas, Redlock, consensus, fencing.
const FILES: &[(&str, &str)] = scenarios![
    "redis-expiry-pause",
    "redis-check-then-pause",
    "redis-packet-delay",
    "redis-setnx-expire",
    "redis-no-ttl",
    "redis-fixed-value",
    "redis-get-del",
    "redis-lua-release",
    "redis-clock-jump",
    "redis-clock-back",
    "redis-crash-no-fsync",
    "redis-watchdog",
    "redis-failover",
    "redis-failover-wait",
    "redis-cluster-failover",
    "valkey-ifeq",
    "redis-semaphore-clocks",
    "redis-reentrant-release",
    "redlock-quiet",
    "redlock-clock-jump",
    "redlock-crash-no-fsync",
    "redlock-fsync-always",
    "redlock-delayed-restart",
    "redlock-delayed-restart-clock",
    "redlock-pause-before-replies",
    "redlock-no-elapsed-check",
    "redlock-pause-after-acquire",
    "redlock-client-wall-clock",
    "redlock-drift",
    "redlock-lost-reply",
    "redlock-split-vote",
    "redlock-token-counter",
    "zookeeper-session-pause",
    "zookeeper-clock-jump",
    "zookeeper-herd",
    "zookeeper-shared-lock",
    "nats-power-loss",
    "etcd-lease-pause",
    "etcd-18-percent",
    "etcd-no-recheck",
    "etcd-clock-comes-back",
    "etcd-clock-jump",
    "etcd-leader-killed",
    "etcd-election-zombie",
    "kubernetes-election-clock",
    "fence-racy-check",
    "fence-unique-token",
    "fence-epoch-quorum",
    "chubby-sequencer",
    "chubby-lock-delay",
    "hadoop-fencing",
    "postgres-row-lock",
    "postgres-shared-release",
    "postgres-several-order",
    "mariadb-reconnect",
];

/// Every scenario that is part of the program, in the order of the debate.
pub fn registry() -> &'static [Scenario] {
    static SCENARIOS: LazyLock<Vec<Scenario>> =
        LazyLock::new(|| FILES.iter().map(|(name, text)| read(name, text)).collect());
    &SCENARIOS
}

/// The scenario of that name. Only its own file is read.
pub fn find(name: &str) -> Option<Scenario> {
    FILES.iter().find(|(known, _)| *known == name).map(|(name, text)| read(name, text))
}

fn read(name: &str, text: &str) -> Scenario {
    let path = format!("scenarios/{name}.toml");
    // A test reads all of them: a program whose scenarios are mistaken is never released.
    file::parse(name, &path, text).unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_scenario_with_its_source() {
        assert_eq!(registry().len(), FILES.len());
        for scenario in registry() {
            let said = [&scenario.about, &scenario.source, &scenario.expected];
            assert!(said.iter().all(|text| !text.is_empty()), "{}", scenario.name);
        }
    }

    #[test]
    fn every_file_in_the_folder_has_its_line() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                entry.unwrap().file_name().into_string().unwrap().strip_suffix(".toml").map(str::to_owned)
            })
            .collect();
        there.sort_unstable();
        let mut listed: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        listed.sort_unstable();
        assert_eq!(listed, there);
    }
}
