//! The main job on real clusters, under both drivers. A machine without Docker engine or root fails these tests: they
//! are what guards the rest.

mod common;

use common::{test, under_both_drivers};
use fencepost_checker::Outcome;
use fencepost_history::{Kind, f};

under_both_drivers!(
    redis_single_holds_in_peace,
    redlock_holds_in_peace,
    etcd_holds_in_peace,
    the_lock_workload_holds_in_peace,
    redlock_breaks_when_clocks_jump,
    a_stopped_holder_loses_updates,
    a_token_protects_the_data,
    the_canary_is_caught,
    a_jump_of_nothing_is_vacuous,
    a_partition_is_real,
    a_kill_is_real,
    etcd_under_clock_jumps_says_what_it_saw,
);

fn holds_in_peace(args: &str) {
    let ran = test(&format!("--nemesis none --time-limit 4s --hold 20ms {args}"));
    assert_eq!(ran.code, 0);
    let acquired =
        ran.history().iter().filter(|event| event.f == f::ACQUIRE && event.kind == Kind::Ok).count();
    assert!(acquired > 10, "only {acquired} acquisitions");
    for verdict in ran.verdict().verdicts {
        assert_eq!(verdict.outcome, Outcome::Valid, "{}: {}", verdict.checker, verdict.summary);
    }
}

fn redis_single_holds_in_peace(driver: &str) {
    holds_in_peace(&format!("--driver {driver} --backend redis-single"));
}

fn redlock_holds_in_peace(driver: &str) {
    holds_in_peace(&format!("--driver {driver} --backend redlock"));
}

fn etcd_holds_in_peace(driver: &str) {
    holds_in_peace(&format!("--driver {driver} --backend etcd --guard token"));
}

fn the_lock_workload_holds_in_peace(driver: &str) {
    holds_in_peace(&format!("--driver {driver} --backend redis-single --workload lock --keys 3"));
}

/// Seeds fix the plan; this one has jumps of a majority of the nodes.
fn redlock_breaks_when_clocks_jump(driver: &str) {
    let ran = test(&format!("--driver {driver} --nemesis clock-jump --seed 1 --time-limit 12s"));
    assert_eq!(ran.code, 1);
    ran.assert_faults_real();
    assert!(ran.findings("exclusion", "granted-twice") > 0);
    assert!(ran.stdout.contains("jumped"), "the story names the fault");
    let report = std::fs::read_to_string(ran.folder().join("report.html")).expect("a report");
    assert!(report.contains("<svg"), "the report has a picture");
    // The same verdict from the folder alone, with neither engine nor servers in reach.
    let again = common::fencepost(&["analyze", ran.folder().to_str().expect("UTF-8")])
        .env("DOCKER_HOST", "unix:///nowhere")
        .output()
        .expect("the program starts");
    assert_eq!(again.status.code(), Some(1));
}

fn a_stopped_holder_loses_updates(driver: &str) {
    let ran =
        test(&format!("--driver {driver} --backend redis-single --nemesis pause --guard none --seed 1"));
    assert_eq!(ran.code, 1);
    ran.assert_faults_real();
    assert_eq!(ran.outcome("lost-updates"), Outcome::Violation);
}

fn a_token_protects_the_data(driver: &str) {
    let ran = test(&format!("--driver {driver} --backend etcd --nemesis pause --guard token --seed 1"));
    ran.assert_faults_real();
    assert_eq!(ran.outcome("lost-updates"), Outcome::Valid);
    assert_eq!(ran.outcome("fencing"), Outcome::Valid);
    let stale = |event: &&fencepost_history::Event| {
        event.error.as_deref().is_some_and(|error| error.starts_with("stale-token"))
    };
    assert!(ran.history().iter().filter(stale).count() > 0, "the guard rejected nothing");
}

fn the_canary_is_caught(driver: &str) {
    let ran = test(&format!("--driver {driver} --backend canary-nolock --nemesis none --time-limit 3s"));
    assert_eq!(ran.code, 1);
    for checker in ["exclusion", "lost-updates", "stale-writes", "fencing"] {
        if let Some(verdict) = ran.verdict().of_checker(checker) {
            assert_eq!(verdict.outcome, Outcome::Violation, "{checker} missed the canary");
        }
    }
    assert_eq!(ran.outcome("exclusion"), Outcome::Violation);
    assert_eq!(ran.outcome("lost-updates"), Outcome::Violation);
}

fn a_jump_of_nothing_is_vacuous(driver: &str) {
    let ran = test(&format!("--driver {driver} --nemesis clock-jump --clock-amplitude 0 --time-limit 4s"));
    assert_eq!(ran.code, 2);
    assert_eq!(ran.verdict().outcome, Outcome::Vacuous);
}

fn a_partition_is_real(driver: &str) {
    let ran = test(&format!("--driver {driver} --nemesis partition --seed 1 --time-limit 8s"));
    ran.assert_faults_real();
    let dropped: u64 = ran
        .stages("heal", Kind::Ok)
        .iter()
        .flat_map(|value| value["observed"].as_object().cloned().unwrap_or_default())
        .filter_map(|(_, node)| node["packets_dropped"].as_u64())
        .sum();
    assert!(dropped > 0, "no packet was dropped");
}

fn a_kill_is_real(driver: &str) {
    let ran = test(&format!("--driver {driver} --nemesis kill --seed 1 --time-limit 6s"));
    ran.assert_faults_real();
}

fn etcd_under_clock_jumps_says_what_it_saw(driver: &str) {
    let ran =
        test(&format!("--driver {driver} --backend etcd --nemesis clock-jump --seed 1 --time-limit 12s"));
    ran.assert_faults_real();
    assert!([0, 1].contains(&ran.code), "neither held nor broken: {}", ran.code);
    assert_eq!(ran.code == 1, ran.verdict().outcome == Outcome::Violation);
}
