//! The built-in scenarios, played on real clusters.

use crate::common::output;
use serde_json::Value;

/// Every built-in scenario, by the name under which it can be played.
fn names() -> Vec<&'static str> {
    fencepost_engine::scenario::registry().iter().map(|scenario| scenario.name.as_str()).collect()
}

/// Plays scenarios, and gives their reports. Those that did not agree are shown.
fn play(words: &[&str]) -> Vec<Value> {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = results.path().to_str().expect("a path in UTF-8");
    let mut all = vec!["scenario", "--json", "--results", folder];
    all.extend(words);
    let output = output(&all);
    let text = String::from_utf8(output.stdout).expect("output in UTF-8");
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    let reports: Vec<Value> = serde_json::from_str(&text).expect("reports as JSON");
    for report in reports.iter().filter(|report| report["ending"] != "agrees") {
        eprintln!("{report:#}");
    }
    let agree = reports.iter().all(|report| report["ending"] == "agrees");
    assert_eq!(output.status.code() == Some(0), agree, "the exit code tells whether all agree");
    reports
}

/// The scenarios, of these, that did not agree, or were not played.
fn not_agreeing<'a>(reports: &[Value], names: &[&'a str]) -> Vec<&'a str> {
    let agrees =
        |name: &str| reports.iter().any(|report| report["name"] == name && report["ending"] == "agrees");
    names.iter().copied().filter(|name| !agrees(name)).collect()
}

/// Scenarios that are played side by side.
const JOBS: &str = "2";

/// Plays scenarios, once each, all of which must agree. Their steps wait for events, so that a busy machine
/// makes them slow, and no other.
fn assert_all_agree(names: &[&str], driver: &str) {
    let words = ["--driver", driver, "--seed", "1", "--jobs", JOBS];
    let words: Vec<&str> = names.iter().chain(&words).copied().collect();
    assert_eq!(not_agreeing(&play(&words), names), [""; 0]);
}

/// The scenarios whose names begin so.
fn scenarios_of(beginnings: &[&str]) -> Vec<&'static str> {
    let is_of = |name: &&str| beginnings.iter().any(|beginning| name.starts_with(beginning));
    names().into_iter().filter(is_of).collect()
}

/// How many rounds a split of the votes lasts depends on how punctual the machine is: a process that is late
/// is a random delay. Its rate is measured by night (`chance`).
const BY_CHANCE: &str = "redlock-split-vote";

/// Processes have to cross within its six seconds: it is played by night, with all of them.
const CROSSING: &str = "postgres-several-order";

/// Whether a scenario, played once, agreed. It must have come about.
pub fn agrees(name: &str, driver: &str, seed: u64) -> bool {
    let seed = seed.to_string();
    let reports = play(&[name, "--driver", driver, "--seed", &seed]);
    let ending = reports[0]["ending"].as_str().expect("an ending");
    assert!(["agrees", "disagrees"].contains(&ending), "{name} did not come about: {ending}");
    ending == "agrees"
}

const ON_REDIS: &[&str] = &["redis-", "valkey-"];
const CONSENSUS: &[&str] = &["zookeeper-", "etcd-", "nats-"];
const OTHERS: &[&str] = &["fence-", "chubby-", "kubernetes-", "hadoop-", "postgres-", "mariadb-"];

/// Scenarios of consensus that are played by night: each service has one by day that shows its lease.
const CONSENSUS_BY_NIGHT: &[&str] = &[
    "etcd-18-percent",
    "etcd-clock-comes-back",
    "etcd-election-zombie",
    "etcd-leader-killed",
    "etcd-no-recheck",
    "zookeeper-clock-jump",
    "zookeeper-herd",
];

/// All other scenarios are played: each in one of these four.
#[test]
fn every_scenario_on_redis_agrees_locally() {
    assert_all_agree(&scenarios_of(ON_REDIS), "local");
}

#[test]
fn every_scenario_of_redlock_agrees_locally() {
    let mut names = scenarios_of(&["redlock-"]);
    names.retain(|name| *name != BY_CHANCE);
    assert_all_agree(&names, "local");
}

#[test]
fn a_scenario_of_chance_comes_about() {
    agrees(BY_CHANCE, "local", 1);
}

#[test]
fn scenarios_of_each_consensus_agree_locally() {
    let mut names = scenarios_of(CONSENSUS);
    names.retain(|name| !CONSENSUS_BY_NIGHT.contains(name));
    assert_all_agree(&names, "local");
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn other_scenarios_of_consensus_agree_locally_by_night() {
    assert_all_agree(CONSENSUS_BY_NIGHT, "local");
}

#[test]
fn every_other_scenario_agrees_locally() {
    let mut names = scenarios_of(OTHERS);
    names.retain(|name| *name != CROSSING);
    assert_all_agree(&names, "local");
}

#[test]
fn no_scenario_is_left_out() {
    assert_eq!(scenarios_of(&[ON_REDIS, &["redlock-"], CONSENSUS, OTHERS].concat()), names());
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn every_scenario_agrees_under_docker_by_night() {
    assert_all_agree(&names(), "docker");
}
