//! Every nemesis, against a lock on independent servers and one with a leader, under both drivers: each takes
//! hold, is healed, and leaves nothing behind.

use crate::common::turn::{Turn, Weight};
use crate::common::{Running, fencepost, planned, test, under};
use crate::packets::assert_line_is_slow;
use fencepost_history::fault::FAULT_LEFT_OUT;
use fencepost_history::{Event, Kind};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

under!(
    local: [every_nemesis_takes_effect_on_redlock, every_nemesis_takes_effect_on_etcd, failed_faults_are_reported_and_undone, a_swarm_says_what_it_is_made_of, doctor_tries_every_fault_in_folders_with_random_names],
    docker: [],
    docker_by_night: [every_nemesis_takes_effect_on_redlock, every_nemesis_takes_effect_on_etcd, failed_faults_are_reported_and_undone, a_swarm_says_what_it_is_made_of, doctor_tries_every_fault_in_folders_with_random_names],
);

/// A fault of each nemesis that is certain to show: its name, its target (`leader` is n2 where no server
/// leads), how long it lasts in milliseconds, and its parameters.
pub const FAULTS: &[(&str, &str, u32, &str)] = &[
    ("clock-jump", "n1", 500, "wall_ms = 30000\nmonotonic_ms = 30000"),
    ("clock-drift", "n1", 500, "model = 'linear'\ndrift_ppm = 500000"),
    ("clock-strobe", "n1", 500, "size_ms = 30000\nperiod_ms = 100"),
    ("clock-freeze", "n1", 500, ""),
    ("pause", "c1", 500, "stop_ms = 50\nrun_ms = 20"),
    ("thread-pause", "n1", 500, "thread = 'main'"),
    ("cpu", "n1", 500, "share = 0.1"),
    ("partition", "c1", 500, "groups = [['c1'], ['n1']]"),
    ("delay", "n1", 500, "delay_ms = 500\npeers = ['n2', 'n3']"),
    ("loss", "n1", 500, "loss = 0.5\npeers = ['n2', 'n3']"),
    ("reorder", "n1", 500, "delay_ms = 200\nreorder = 0.3\npeers = ['n2', 'n3']"),
    ("duplicate", "n1", 500, "duplicate = 0.5\npeers = ['n2', 'n3']"),
    ("slow", "n1", 500, "rate_kbit = 64\npeers = ['n2']"),
    ("stall", "c1", 500, "delay_ms = 1000\npass_first = 1\npeers = ['n1', 'n2', 'n3']\nways = 'out'"),
    ("reset", "c1", 500, "reset = 0.5\npeers = ['n1', 'n2', 'n3']"),
    ("half-open", "c1", 500, "idle_ms = 20\npeers = ['n1', 'n2', 'n3']"),
    ("error-replies", "n1", 500, "reply = 'oom'"),
    ("script-flush", "n1", 1, ""),
    ("evict", "n1", 500, "policy = 'allkeys-random'"),
    ("kill", "n1", 1, ""),
    ("terminate", "n1", 1, ""),
    ("rolling", "n1", 1, ""),
    ("power-loss", "n1", 300, "flicker_ms = 50"),
    ("disk-full", "n3", 500, "bytes_left = 100"),
    ("disk-slow", "n3", 500, "fsync_ms = 50"),
    ("disk-error", "n3", 500, "call = 'fsync'\nshare = 0.5"),
    (
        "command",
        "n3",
        300,
        "inject = 'touch /tmp/by-command'\nheal = 'rm -f /tmp/by-command'\nobserve = 'test -e /tmp/by-command'\nplace = 'node'",
    ),
    ("failover", "leader", 200, ""),
    ("member", "n3", 300, ""),
    ("leader-kill", "leader", 200, ""),
    ("leader-pause", "leader", 500, ""),
];

/// Those that only servers of Redis have, and those that only etcd has.
const OF_REDIS: [&str; 3] = ["error-replies", "script-flush", "evict"];
const OF_ETCD: [&str; 1] = ["member"];

/// The faults for a lock.
pub fn faults_of(
    lock: &str,
) -> impl Iterator<Item = &'static (&'static str, &'static str, u32, &'static str)> {
    let is_redis = lock == "redlock";
    let others: &[&str] = if is_redis { &OF_ETCD } else { &OF_REDIS };
    FAULTS.iter().filter(move |(fault, ..)| !others.contains(fault))
}

fn every_nemesis_takes_effect_on_redlock(driver: &str) {
    every_nemesis_takes_effect("redlock", "n2", driver);
}

fn every_nemesis_takes_effect_on_etcd(driver: &str) {
    every_nemesis_takes_effect("etcd", "leader", driver);
}

/// Each fault waits until the one before it is healed, and the run is over when the last one is.
fn every_nemesis_takes_effect(lock: &str, leader: &str, driver: &str) {
    let mut when = "any acquire".to_owned();
    let mut plan = String::new();
    for (fault, on, for_ms, parameters) in faults_of(lock) {
        let on = if *on == "leader" { leader } else { on };
        plan += &planned_fault(fault, &[on], &when, *for_ms, parameters);
        when = format!("{fault} healed");
    }
    let args = format!("--driver {driver} --lock {lock} --nodes 3 --brief --time-limit 300s");
    let ran = planned(&plan, &args);
    // What is tested is the faults. A lock that breaks under them is right to be reported.
    assert!([0, 1, 2].contains(&ran.code), "the run itself failed: {}", ran.code);
    assert_eq!(ran.phases(), ["main", "heal", "liveness", "closing"]);
    let seen: BTreeMap<String, Value> = ran
        .nemesis_events("inject", Kind::Ok)
        .into_iter()
        .map(|event| (event.f.into(), (*event.value).clone()))
        .collect();
    let healed: BTreeSet<String> =
        ran.nemesis_events("heal", Kind::Ok).into_iter().map(|event| event.f.into()).collect();
    for (fault, on, ..) in faults_of(lock) {
        let seen = seen.get(*fault).unwrap_or_else(|| panic!("{fault} was not injected: {seen:#?}"));
        match *fault {
            // Counts as effective if it takes longer than before, which on a busy machine it need not.
            "slow" => assert_line_is_slow(&seen["observed"][on]),
            _ => assert_eq!(seen["effective"], true, "{fault}: {seen}"),
        }
        assert!(healed.contains(*fault), "{fault} was not healed");
    }
}

/// Names of all nemeses of the registry.
pub fn listed() -> BTreeSet<String> {
    let output = crate::common::fencepost(&["list", "nemeses"]).output().expect("the program starts");
    let listed = String::from_utf8(output.stdout).expect("UTF-8");
    let names = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !["none", "swarm"].contains(name)).map(str::to_owned).collect()
}

/// A nemesis that is not in the table is played by night with what it draws, so that a new one needs no line
/// here (`chance::other_nemeses_take_effect_when_drawn_by_night`).
#[test]
fn the_table_names_nemeses_of_the_registry() {
    let in_table: BTreeSet<String> = FAULTS.iter().map(|(fault, ..)| (*fault).to_owned()).collect();
    assert!(in_table.is_subset(&listed()), "{in_table:?}");
}

fn planned_fault(fault: &str, on: &[&str], when: &str, for_ms: u32, parameters: &str) -> String {
    format!("[[fault]]\nwhen = '{when}'\nfor_ms = {for_ms}\nfault = '{fault}'\non = {on:?}\n{parameters}\n")
}

/// Longer than the injection of another fault takes.
const LONG_MS: u32 = 15_000;

/// The end of a fault that ends before its time.
const NEVER_MS: u32 = 300_000;

/// A fault that was injected only in part is undone at once, a second one of its kind is left out and
/// recorded, and a server that is killed while it is stopped fails no healing.
fn failed_faults_are_reported_and_undone(driver: &str) {
    let jump = "wall_ms = 60000\nmonotonic_ms = 60000";
    let plan = [
        planned_fault("kill", &["n2"], "any acquire", LONG_MS, ""),
        planned_fault("clock-jump", &["n1", "n2"], "kill injected", NEVER_MS, jump),
        planned_fault("pause", &["n3"], "kill injected", LONG_MS, ""),
        planned_fault("kill", &["n3"], "pause injected", 200, ""),
        planned_fault("disk-slow", &["n4"], "any acquire", LONG_MS, "fsync_ms = 5"),
        planned_fault("disk-slow", &["n4", "n5"], "disk-slow injected", LONG_MS, "fsync_ms = 5"),
    ];
    let args = format!("--driver {driver} --lock redlock --brief --time-limit 300s");
    let ran = planned(&plan.concat(), &args);
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
    assert!(undone.time - failed_ns < u64::from(NEVER_MS) * 1_000_000, "it was undone only at its end");
    let off_ms = undone.value["observed"]["n1"]["wall_ms"].as_i64().expect("the clock of n1 was read");
    assert!(off_ms.abs() < 30_000, "{}", undone.value);
    let history = ran.history();
    let left_out: Vec<&Event> = history.iter().filter(|event| event.f == FAULT_LEFT_OUT).collect();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!(left_out[0].value["targets"], json!(["n4", "n5"]), "{left_out:?}");
    assert!(ran.stdout.contains("1 left out"), "{}", ran.stdout);
    assert_eq!((of("disk-slow").len(), of("pause").len(), of("kill").len()), (1, 1, 2));
}

fn a_swarm_says_what_it_is_made_of(driver: &str) {
    let ran = test(&format!("--driver {driver} --nemesis swarm --time-limit 3s --seed 5"));
    assert!([0, 1, 2].contains(&ran.code), "the run itself failed: {}", ran.code);
    let plan = std::fs::read_to_string(ran.folder().join("plan.toml")).expect("a plan");
    assert!(plan.contains("[[swarm]]") && plan.contains("strength"), "{plan}");
    let printed = ran.stdout.lines().find(|line| line.starts_with("swarm ")).expect("the swarm is printed");
    assert!(printed.contains('×') && printed.contains("every"), "{printed}");
}

/// Under `local` there is no engine in reach. The kernel reports the name of each folder that is made.
fn doctor_tries_every_fault_in_folders_with_random_names(driver: &str) {
    let weight = Weight::of(&["doctor", "--driver", driver]);
    let folders = tempfile::tempdir().expect("a temporary folder");
    let made = Inotify::init(InitFlags::IN_NONBLOCK).expect("inotify");
    made.add_watch(folders.path(), AddWatchFlags::IN_CREATE).expect("a folder of ours");
    let mut command = fencepost(&["doctor", "--json"]);
    command.env("TMPDIR", folders.path());
    if driver == "local" {
        command.env("DOCKER_HOST", "unix:///nowhere");
    }
    let output = Running::start_command(Some(Turn::take(weight)), command, weight).finish();
    let mut seen = BTreeSet::new();
    while let Ok(events) = made.read_events() {
        seen.extend(events.into_iter().filter_map(|event| event.name?.into_string().ok()));
    }
    let names = || {
        let entries = std::fs::read_dir(folders.path()).expect("a folder").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
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
    let drivers: &[&str] = if driver == "docker" { &["docker", "local"] } else { &["local"] };
    let found = report["drivers"].as_array().expect("drivers");
    let can =
        |name: &&&str| found.iter().any(|driver| driver["name"] == **name && driver["starts_nodes"] == "yes");
    assert!(drivers.iter().all(|name| can(&name)), "{text}");
    assert!(driver == "local" || report["engines"][0]["name"] == "Docker", "{text}");
    let nemeses = report["nemeses"].as_array().expect("nemeses");
    for fault in listed() {
        let tried = nemeses.iter().find(|nemesis| nemesis["name"] == fault.as_str());
        let tried = tried.unwrap_or_else(|| panic!("{fault} is not in: {text}"));
        for driver in drivers {
            let effect = &tried["drivers"][*driver];
            let is_well = effect["answer"] == "effective" || effect["answer"] == "possible";
            assert!(is_well && effect["mechanism"].is_string(), "{fault} under {driver}: {effect}");
        }
    }
}
