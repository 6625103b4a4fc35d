//! The main job on real clusters, under both drivers. A machine without Docker engine or root fails these tests: they
//! are what guards the rest.

mod common;

use common::{Ran, planned, test, test_until, under_both_drivers};
use fencepost_checker::Outcome;
use fencepost_history::{Event, Kind, f};

under_both_drivers!(
    redis_single_holds_in_peace,
    redlock_holds_in_peace,
    etcd_holds_in_peace,
    etcd_lock_api_holds_in_peace,
    chubby_holds_in_peace,
    chubby_shares_among_readers,
    zookeeper_ephemeral_holds_in_peace,
    zookeeper_sequential_holds_in_peace,
    hadoop_holds_in_peace,
    postgres_row_holds_in_peace,
    postgres_version_loses_nothing_in_peace,
    postgres_advisory_holds_in_peace,
    the_lock_workload_holds_in_peace,
    redis_sentinel_holds_in_peace,
    variants_of_redis_locks_hold_in_peace,
    counters_on_each_node_leave_the_lock_as_it_is,
    a_watchdog_outlives_the_ttl,
    sentinels_promote_a_replica,
    guards_let_honest_holders_write,
    a_set_keeps_what_was_added,
    a_herd_is_measured,
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
    let limit = if args.contains("--time-limit") { "" } else { "--time-limit 4s" };
    let ran = test(&format!("--nemesis none --hold 20ms {limit} {args}"));
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

fn etcd_lock_api_holds_in_peace(driver: &str) {
    holds_in_peace(&format!("--driver {driver} --backend etcd-lock-api --guard token"));
    holds_in_peace(&format!("--driver {driver} --backend etcd-lock-api --workload lock"));
}

fn chubby_holds_in_peace(driver: &str) {
    holds_in_peace(&format!("--driver {driver} --backend chubby --guard sequencer --lock-delay 3s"));
    holds_in_peace(&format!("--driver {driver} --backend chubby --workload lock"));
}

fn chubby_shares_among_readers(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --backend chubby --readers 7 --nemesis none --time-limit 4s --hold 20ms --lock-delay 2s"
    ));
    assert_eq!(ran.code, 0);
    // Several readers were inside at once: the lock was really shared.
    let (mut inside, mut most) = (0_i64, 0);
    for event in ran.history().iter().filter(|event| event.process != fencepost_history::Process::Nemesis) {
        match (event.f.as_ref(), event.kind) {
            ("acquire", Kind::Ok) if event.value["mode"] == "shared" => inside += 1,
            ("acquire", Kind::Ok) => inside = 0,
            ("release", Kind::Invoke) => inside -= 1,
            _ => {}
        }
        most = most.max(inside);
    }
    assert!(most > 1, "at most {most} readers were inside at once");
}

/// With both workloads: the second has nothing but the lock itself to judge.
fn both_hold_in_peace(args: &str) {
    holds_in_peace(&format!("--workload increment {args}"));
    holds_in_peace(&format!("--workload lock {args}"));
}

fn zookeeper_ephemeral_holds_in_peace(driver: &str) {
    both_hold_in_peace(&format!("--driver {driver} --backend zookeeper-ephemeral"));
    holds_in_peace(&format!("--driver {driver} --backend zookeeper-ephemeral --guard token"));
}

fn hadoop_holds_in_peace(driver: &str) {
    both_hold_in_peace(&format!("--driver {driver} --backend hadoop"));
}

fn zookeeper_sequential_holds_in_peace(driver: &str) {
    both_hold_in_peace(&format!("--driver {driver} --backend zookeeper-sequential"));
}

fn postgres_row_holds_in_peace(driver: &str) {
    both_hold_in_peace(&format!("--driver {driver} --backend postgres-row"));
}

fn postgres_version_loses_nothing_in_peace(driver: &str) {
    both_hold_in_peace(&format!("--driver {driver} --backend postgres-version"));
}

fn postgres_advisory_holds_in_peace(driver: &str) {
    both_hold_in_peace(&format!("--driver {driver} --backend postgres-advisory"));
}

fn the_lock_workload_holds_in_peace(driver: &str) {
    holds_in_peace(&format!("--driver {driver} --backend redis-single --workload lock --keys 3"));
}

/// Each guard with a backend that feeds it.
fn guards_let_honest_holders_write(driver: &str) {
    let fed = [
        ("redis-single", "unique"),
        ("redlock", "unique-racy"),
        ("etcd", "token-racy"),
        ("etcd", "epoch-quorum"),
        ("etcd", "epoch-quorum-unmarked"),
        ("etcd", "sequencer"),
    ];
    for (backend, guard) in fed {
        holds_in_peace(&format!("--driver {driver} --backend {backend} --guard {guard}"));
    }
}

fn a_set_keeps_what_was_added(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --backend redis-single --workload set --nemesis none --hold 10ms --time-limit 3s"
    ));
    assert_eq!(ran.code, 0);
    assert_eq!(ran.outcome("lost-additions"), Outcome::Valid);
    let figures = ran.verdict().figures;
    assert_eq!((figures[0].name.as_str(), figures[0].value), ("acknowledged additions lost", 0.0));
    assert!(figures[0].interval.is_some_and(|[_, high]| high > 0.0 && high < 50.0), "{figures:?}");
    assert!(ran.stdout.contains("acknowledged additions lost 0.0 %"), "{}", ran.stdout);
    let canary = test(&format!(
        "--driver {driver} --backend canary-nolock --workload set --nemesis none --hold 10ms --time-limit 2s"
    ));
    assert_eq!(canary.outcome("lost-additions"), Outcome::Violation);
    assert!(canary.verdict().figures[0].value > 10.0, "{:?}", canary.verdict().figures);
}

fn a_herd_is_measured(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --backend etcd --workload herd --nemesis none --hold 10ms --concurrency 20 \
         --acquire-timeout 10s --time-limit 3s"
    ));
    assert_eq!(ran.code, 0);
    let figures = ran.verdict().figures;
    let figure = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    // Each waiter watches the one before it, and is woken by its release alone.
    let wakeups = figure("wake-ups a release").expect("etcd tells");
    assert!(wakeups > 0.5 && wakeups < 1.5, "{figures:?}");
    assert_eq!(figure("grants that went past an earlier waiter"), Some(0.0), "{figures:?}");
}

fn redis_sentinel_holds_in_peace(driver: &str) {
    holds_in_peace(&format!("--driver {driver} --backend redis-sentinel --wait 1"));
    holds_in_peace(&format!("--driver {driver} --backend redis-sentinel --workload lock"));
}

/// Without faults even the wrong variants of a lock hold.
fn variants_of_redis_locks_hold_in_peace(driver: &str) {
    for variant in [
        "redis-single --release get-del --workload lock",
        "redis-single --release blind",
        "redis-single --acquire setnx-expire",
        "redis-single --acquire no-ttl",
        "redis-single --value fixed",
        "redlock --no-elapsed-check --client-clock wall",
        "redlock --no-retry-jitter",
        "redlock --release-where seen --workload lock",
        "redlock --token incr-one --guard token",
    ] {
        holds_in_peace(&format!("--driver {driver} --time-limit 2s --backend {variant}"));
    }
}

/// A counter on each node is no fencing token, even in peace: not every lock is granted by all nodes, so the counters
/// come apart, and tokens repeat sooner or later. The lock itself holds.
fn counters_on_each_node_leave_the_lock_as_it_is(driver: &str) {
    let ran =
        test(&format!("--driver {driver} --token incr-each --guard token --nemesis none --time-limit 4s"));
    assert_eq!(ran.outcome("exclusion"), Outcome::Valid);
    let tokens = ran.history().iter().filter(|event| event.value["token"].is_u64()).count();
    assert!(tokens > 10, "only {tokens} tokens");
}

fn a_watchdog_outlives_the_ttl(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --backend redis-single --watchdog --ttl 300ms --hold 900ms --acquire-timeout 5s --time-limit 4s \
         --clients 2 --concurrency 2 --nemesis none"
    ));
    assert_eq!(ran.code, 0);
    let history = ran.history();
    let renewed = history.iter().filter(|event| event.f == f::RENEWED).count();
    assert!(renewed > 4, "only {renewed} renewals");
    assert!(history.iter().all(|event| event.f != f::LOST), "a lock was lost in peace");
}

fn sentinels_promote_a_replica(driver: &str) {
    let strike = "[[strike]]\nat = 1\nfor = \"8s\"\nfault = \"kill\"\non = [\"n1\"]\n";
    let ran = planned(strike, &format!("--driver {driver} --backend redis-sentinel --time-limit 10s"));
    ran.assert_faults_real();
    let by_another = |event: &&Event| {
        event.f == f::ACQUIRE && event.kind == Kind::Ok && event.value["granted_by"][0] != "n1"
    };
    assert!(ran.history().iter().filter(by_another).count() > 0, "nobody but n1 granted the lock");
}

fn redlock_breaks_when_clocks_jump(driver: &str) {
    let ran = test_until(
        &format!("--driver {driver} --nemesis clock-jump --time-limit 12s"),
        Ran::assert_faults_real,
        |ran| ran.findings("exclusion", "granted-twice") > 0,
    );
    assert_eq!(ran.code, 1);
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
    let ran = test_until(
        &format!("--driver {driver} --backend redis-single --nemesis pause --guard none"),
        Ran::assert_faults_real,
        |ran| ran.outcome("lost-updates") == Outcome::Violation,
    );
    assert_eq!(ran.code, 1);
}

fn a_token_protects_the_data(driver: &str) {
    let protected = |ran: &Ran| {
        ran.assert_faults_real();
        assert_eq!(ran.outcome("lost-updates"), Outcome::Valid);
        assert_eq!(ran.outcome("fencing"), Outcome::Valid);
    };
    let stale = |event: &Event| event.error.as_deref().is_some_and(|error| error.starts_with("stale-token"));
    test_until(
        &format!("--driver {driver} --backend etcd --nemesis pause --guard token"),
        protected,
        |ran| ran.history().iter().any(stale),
    );
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
    let dropped = |ran: &Ran| -> u64 {
        ran.stages("heal", Kind::Ok)
            .iter()
            .flat_map(|value| value["observed"].as_object().cloned().unwrap_or_default())
            .filter_map(|(_, node)| node["packets_dropped"].as_u64())
            .sum()
    };
    test_until(
        &format!("--driver {driver} --nemesis partition --time-limit 8s"),
        Ran::assert_faults_real,
        |ran| dropped(ran) > 0,
    );
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
