//! Every nemesis, against a lock on independent servers and one with a leader, under both drivers: each takes
//! hold, is healed, and leaves nothing behind.

use crate::common::turn::{Turn, Weight};
use crate::common::{Running, fencepost, planned_weighed, test, test_until, under};
use fencepost_history::fault::FAULT_LEFT_OUT;
use fencepost_history::{Event, Kind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

under!(
    local: [every_nemesis_takes_effect_on_redlock, every_nemesis_takes_effect_on_etcd, other_nemeses_take_effect_when_drawn, failed_faults_are_reported_and_undone, a_swarm_says_what_it_is_made_of],
    docker: [every_nemesis_takes_effect_on_redlock],
    docker_by_night: [every_nemesis_takes_effect_on_etcd, other_nemeses_take_effect_when_drawn, failed_faults_are_reported_and_undone, a_swarm_says_what_it_is_made_of],
);

/// A fault of each nemesis that is certain to show: its name, its target (`leader` is n2 where no server
/// leads), how long it lasts in milliseconds, and its parameters.
const FAULTS: &[(&str, &str, u32, &str)] = &[
    ("clock-jump", "n1", 500, "wall_ms = 30000\nmonotonic_ms = 30000"),
    ("clock-drift", "n1", 500, "model = 'linear'\ndrift_ppm = 500000"),
    ("clock-strobe", "n1", 500, "size_ms = 30000\nperiod_ms = 100"),
    ("clock-freeze", "n1", 500, ""),
    ("pause", "c1", 500, "stop_ms = 50\nrun_ms = 20"),
    ("partition", "c1", 500, "groups = [['c1'], ['n1']]"),
    ("delay", "n1", 500, "delay_ms = 50\npeers = ['n2', 'n3']"),
    ("loss", "n1", 500, "loss = 0.5\npeers = ['n2', 'n3']"),
    ("reorder", "n1", 500, "delay_ms = 20\nreorder = 0.3\npeers = ['n2', 'n3']"),
    ("duplicate", "n1", 500, "duplicate = 0.5\npeers = ['n2', 'n3']"),
    ("slow", "n1", 500, "rate_kbit = 64\npeers = ['n2']"),
    ("stall", "c1", 500, "delay_ms = 100\npass_first = 1\npeers = ['n1', 'n2', 'n3']\nways = 'out'"),
    ("reset", "c1", 500, "reset = 0.5\npeers = ['n1', 'n2', 'n3']"),
    (ERROR_REPLIES, "n1", 500, "reply = 'oom'"),
    ("kill", "n1", 1, ""),
    ("power-loss", "n1", 300, "flicker_ms = 50"),
    ("disk-full", "n3", 500, "bytes_left = 100"),
    ("disk-slow", "n3", 500, "fsync_ms = 50"),
    ("failover", "leader", 200, ""),
    ("leader-kill", "leader", 200, ""),
    ("leader-pause", "leader", 500, ""),
];

/// The one that only servers of Redis have.
const ERROR_REPLIES: &str = "error-replies";

/// The faults for a lock.
fn faults_of(lock: &str) -> impl Iterator<Item = &'static (&'static str, &'static str, u32, &'static str)> {
    let is_redis = lock == "redlock";
    FAULTS.iter().filter(move |(fault, ..)| is_redis || *fault != ERROR_REPLIES)
}

/// Time from the end of one fault to the next: for the healing, and for an election.
const GAP_MS: u32 = 1500;

fn every_nemesis_takes_effect_on_redlock(driver: &str) {
    every_nemesis_takes_effect("redlock", "n2", driver);
}

fn every_nemesis_takes_effect_on_etcd(driver: &str) {
    every_nemesis_takes_effect("etcd", "leader", driver);
}

fn every_nemesis_takes_effect(lock: &str, leader: &str, driver: &str) {
    let mut at_ms = 500;
    let mut plan = String::new();
    for (fault, on, for_ms, parameters) in faults_of(lock) {
        let on = if *on == "leader" { leader } else { on };
        plan += &planned_fault(fault, &[on], at_ms, *for_ms, parameters);
        at_ms += for_ms + GAP_MS;
    }
    // The last ones wait for a leader, whose election takes seconds on a busy machine.
    at_ms += 6000;
    let mut missing: Vec<String> = faults_of(lock).map(|(fault, ..)| (*fault).to_owned()).collect();
    // A busy machine may leave a client nothing to send while its packets are to be hit: each fault is to be
    // seen in one of a few plays.
    for play in 0..PLAYS {
        let args =
            format!("--driver {driver} --lock {lock} --nodes 3 --time-limit {at_ms}ms --seed {}", play + 1);
        let ran = planned_weighed(Weight::PRECISE, &plan, &args);
        // What is tested is the faults. A lock that breaks under them is right to be reported, and so is a
        // fault that another play has to show.
        assert!([0, 1, 2].contains(&ran.code), "the run itself failed: {}", ran.code);
        assert_eq!(ran.phases(), ["main", "heal", "liveness", "closing"]);
        let effective: BTreeMap<String, Value> = ran
            .nemesis_events("inject", Kind::Ok)
            .into_iter()
            .map(|event| (event.f.into(), (*event.value).clone()))
            .collect();
        let healed: BTreeSet<String> =
            ran.nemesis_events("heal", Kind::Ok).into_iter().map(|event| event.f.into()).collect();
        let took_effect = |fault: &String| effective.get(fault).is_some_and(|seen| seen["effective"] == true);
        missing.retain(|fault| !(took_effect(fault) && healed.contains(fault)));
        if missing.is_empty() {
            return;
        }
        eprintln!("{missing:?} did not take effect, or were not healed: {effective:?}");
    }
    panic!("in {PLAYS} plays, these did not take effect, or were not healed: {missing:?}");
}

/// How often a plan is played until each of its faults was seen.
const PLAYS: u64 = 3;

/// Names of all nemeses of the registry.
fn listed() -> BTreeSet<String> {
    let output = crate::common::fencepost(&["list", "nemeses"]).output().expect("the program starts");
    let listed = String::from_utf8(output.stdout).expect("UTF-8");
    let names = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !["none", "swarm"].contains(name)).map(str::to_owned).collect()
}

/// A nemesis without parameters above is tested with what it draws, so that a new one needs no line here.
fn other_nemeses_take_effect_when_drawn(driver: &str) {
    let all = listed();
    let in_table: BTreeSet<String> = FAULTS.iter().map(|(fault, ..)| (*fault).to_owned()).collect();
    assert!(in_table.is_subset(&all), "the table names a nemesis that is not in the registry: {all:?}");
    for name in all.difference(&in_table) {
        let args = format!("--driver {driver} --lock redlock --nemesis {name} --ttl 1s --time-limit 6s");
        test_until(
            &args,
            |_| (),
            |ran| ran.stages("inject", Kind::Ok).iter().any(|seen| seen["effective"] == true),
        );
    }
}

fn planned_fault(fault: &str, on: &[&str], at_ms: u32, for_ms: u32, parameters: &str) -> String {
    format!("[[fault]]\nat_ms = {at_ms}\nfor_ms = {for_ms}\nfault = '{fault}'\non = {on:?}\n{parameters}\n")
}

/// A fault that was injected only in part is undone at once, a second one of its kind is left out and
/// recorded, and a server that is killed while it is stopped fails no healing.
fn failed_faults_are_reported_and_undone(driver: &str) {
    let jump = "wall_ms = 60000\nmonotonic_ms = 60000";
    let first = "when = { f = 'acquire' }\n";
    let third = "when = { f = 'acquire', times = 3 }\n";
    let plan = [
        planned_fault("kill", &["n2"], 500, 2500, ""),
        planned_fault("clock-jump", &["n1", "n2"], 1200, 4500, jump),
        planned_fault("pause", &["n3"], 1000, 2500, ""),
        planned_fault("kill", &["n3"], 2000, 200, ""),
        planned_fault("disk-slow", &["n4"], 0, 4000, "fsync_ms = 5") + first,
        planned_fault("disk-slow", &["n4", "n5"], 0, 4000, "fsync_ms = 5") + third,
    ];
    let ran = planned_weighed(
        Weight::PRECISE,
        &plan.concat(),
        &format!("--driver {driver} --lock redlock --time-limit 6s"),
    );
    // A nemesis none of whose faults took effect makes a run vacuous, unless it is worse than that.
    assert!([1, 2].contains(&ran.code), "the run itself failed: {}", ran.code);
    let refused = ran.nemesis_events("inject", Kind::Info);
    let why = |fault: &str| {
        let event = refused.iter().find(|event| event.f == fault);
        let event = event.unwrap_or_else(|| panic!("{fault} was injected: {refused:?}"));
        assert_eq!(event.value["effective"], false);
        (event.time, event.error.clone().expect("a reason"))
    };
    let (failed_ns, error) = why("clock-jump");
    assert!(error.contains("n2 is not running"), "{error}");
    let healed = ran.nemesis_events("heal", Kind::Ok);
    let of = |fault: &str| healed.iter().filter(|event| event.f == fault).collect::<Vec<_>>();
    // Standard error is a pipe here.
    assert!(ran.stderr.contains("n2 is not running") && !ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
    let undone = of("clock-jump")[0];
    assert!(undone.time - failed_ns < 3_500_000_000, "it was undone only at its end");
    let off_ms = undone.value["observed"]["n1"]["wall_ms"].as_i64().expect("the clock of n1 was read");
    assert!(off_ms.abs() <= 50, "{}", undone.value);
    let history = ran.history();
    let left_out: Vec<&Event> = history.iter().filter(|event| event.f == FAULT_LEFT_OUT).collect();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!(left_out[0].value["targets"], json!(["n4", "n5"]), "{left_out:?}");
    assert!(ran.stdout.contains("1 left out"), "{}", ran.stdout);
    assert_eq!((of("disk-slow").len(), of("pause").len(), of("kill").len()), (1, 1, 2));
}

fn a_swarm_says_what_it_is_made_of(driver: &str) {
    let ran = test(&format!("--driver {driver} --nemesis swarm --time-limit 5s --seed 5"));
    assert!([0, 1, 2].contains(&ran.code), "the run itself failed: {}", ran.code);
    ran.assert_faults_real();
    let plan = std::fs::read_to_string(ran.folder().join("plan.toml")).expect("a plan");
    assert!(plan.contains("[[swarm]]") && plan.contains("strength"), "{plan}");
    let printed = ran.stdout.lines().find(|line| line.starts_with("swarm ")).expect("the swarm is printed");
    assert!(printed.contains('×') && printed.contains("every"), "{printed}");
}

#[test]
fn doctor_tries_every_fault_in_folders_with_random_names() {
    let weight = Weight { docker: true, ..Weight::PRECISE };
    let folders = tempfile::tempdir().expect("a temporary folder");
    let mut command = fencepost(&["doctor", "--json"]);
    command.env("TMPDIR", folders.path());
    let mut running = Running::start_command(Some(Turn::take(weight)), command, weight);
    let names = || {
        let entries = std::fs::read_dir(folders.path()).expect("a folder").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let mut seen = BTreeSet::new();
    // What it prints fits into the pipe.
    while running.child().try_wait().expect("it was started").is_none() {
        seen.extend(names());
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = running.finish();
    assert!(seen.iter().any(|name| name.starts_with("fencepost-doctor-")), "{seen:?}");
    for name in &seen {
        let random =
            name.strip_prefix("fencepost-").and_then(|name| name.rsplit('-').next()).unwrap_or_default();
        let is_random = random.len() == 12 && random.chars().all(|letter| letter.is_ascii_alphanumeric());
        assert!(is_random, "{name} can be guessed");
    }
    assert_eq!(names(), Vec::<String>::new(), "left in the folder for temporary files");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["can_test"], true, "{text}");
    for driver in report["drivers"].as_array().expect("drivers") {
        assert_eq!(driver["starts_nodes"], "yes", "{text}");
    }
    assert_eq!(report["engines"][0]["name"], "Docker", "{text}");
    let nemeses = report["nemeses"].as_array().expect("nemeses");
    for fault in listed() {
        let tried = nemeses.iter().find(|nemesis| nemesis["name"] == fault.as_str());
        let tried = tried.unwrap_or_else(|| panic!("{fault} is not in: {text}"));
        for driver in ["docker", "local"] {
            let effect = &tried["drivers"][driver];
            let is_well = effect["answer"] == "effective" || effect["answer"] == "possible";
            assert!(is_well && effect["mechanism"].is_string(), "{fault} under {driver}: {effect}");
        }
    }
}
