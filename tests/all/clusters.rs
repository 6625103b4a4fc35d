//! Faults on real clusters: what they do to a lock, and that a run says so. A machine without Docker engine
//! or root fails these tests: they are what guards the rest.

use crate::common::{Ran, planned, test, test_until, under, until_it_happens};
use fencepost_checker::Outcome;
use fencepost_history::fault::SERVER_ENDED;
use fencepost_history::{Event, Kind, f};

under!(
    local: [
        sentinels_promote_a_replica,
        redlock_breaks_when_clocks_jump,
        a_stopped_holder_loses_updates,
        a_token_protects_the_data,
        the_canary_is_caught,
        a_jump_of_nothing_is_vacuous,
        a_partition_is_real,
        a_kill_is_real,
        postgres_serves_again_after_a_kill,
        a_lock_is_not_blamed_for_clients_that_are_all_killed,
        etcd_holds_when_wall_clocks_jump,
    ],
    docker: [a_stopped_holder_loses_updates],
    docker_by_night: [
        a_partition_is_real,
        a_kill_is_real,
        sentinels_promote_a_replica,
        redlock_breaks_when_clocks_jump,
        a_token_protects_the_data,
        the_canary_is_caught,
        a_jump_of_nothing_is_vacuous,
        postgres_serves_again_after_a_kill,
        a_lock_is_not_blamed_for_clients_that_are_all_killed,
        etcd_holds_when_wall_clocks_jump,
    ],
);

fn sentinels_promote_a_replica(driver: &str) {
    let fault = "[[fault]]\nat_ms = 1000\nfor_ms = 20000\nfault = \"kill\"\non = [\"n1\"]\n";
    let ran = planned(fault, &format!("--driver {driver} --lock redis-sentinel --time-limit 22s"));
    ran.assert_faults_real();
    let by_another = |event: &&Event| {
        event.f == f::ACQUIRE && event.kind == Kind::Ok && event.value["granted_by"][0] != "n1"
    };
    assert!(ran.history().iter().filter(by_another).count() > 0, "only n1 granted the lock");
}

fn redlock_breaks_when_clocks_jump(driver: &str) {
    let ran = test_until(
        &format!("--driver {driver} --nemesis clock-jump --time-limit 12s --fail-fast"),
        Ran::assert_faults_real,
        |ran| ran.findings("exclusion", "granted-twice") > 0,
    );
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("jumped"), "the story names the fault");
    let report = std::fs::read_to_string(ran.folder().join("report.html")).expect("a report");
    assert!(report.contains("<svg"), "the report has a picture");
    // The same verdict from the folder alone, with neither engine nor servers in reach.
    let again = crate::common::fencepost(&["analyze", ran.folder().to_str().expect("UTF-8")])
        .env("DOCKER_HOST", "unix:///nowhere")
        .output()
        .expect("the program starts");
    assert_eq!(again.status.code(), Some(1));
}

fn a_stopped_holder_loses_updates(driver: &str) {
    let ran = test_until(
        &format!(
            "--driver {driver} --lock redis-single --nemesis pause --guard none --ttl 1s --time-limit 10s"
        ),
        Ran::assert_faults_real,
        |ran| ran.outcome("lost-updates") == Outcome::Violation,
    );
    assert_eq!(ran.code, 1);
}

/// Each client is stopped while it holds the lock, for longer than its lease, and still writes when it goes
/// on.
fn a_token_protects_the_data(driver: &str) {
    let paused = |client: u32| {
        format!(
            "[[fault]]\nat_ms = 0\nfor_ms = 4000\nfault = \"pause\"\non = [\"c{client}\"]\n\
             when = {{ f = \"acquire\", client = \"c{client}\" }}\n"
        )
    };
    let plan: String = (1..=5).map(paused).collect();
    let args = format!("--driver {driver} --lock etcd --guard token --hold 500ms --time-limit 16s");
    let protected = |ran: &Ran| {
        ran.assert_faults_real();
        assert_eq!(ran.outcome("lost-updates"), Outcome::Valid);
        assert_eq!(ran.outcome("fencing"), Outcome::Valid);
    };
    let stale = |event: &Event| {
        event
            .error
            .as_ref()
            .is_some_and(|error| error.is_rejected() && error.detail().starts_with("stale-token"))
    };
    until_it_happens(
        |seed| planned(&plan, &format!("{args} --seed {seed}")),
        protected,
        |ran| ran.history().iter().any(stale),
    );
}

fn the_canary_is_caught(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock canary-nolock --nemesis none --acquisitions 100 --time-limit 30s"
    ));
    assert_eq!(ran.code, 1);
    for checker in ["exclusion", "lost-updates", "stale-writes", "fencing"] {
        assert_eq!(ran.outcome(checker), Outcome::Violation, "{checker} missed the canary");
    }
}

fn a_jump_of_nothing_is_vacuous(driver: &str) {
    let ran =
        test(&format!("--driver {driver} --nemesis clock-jump --clock-amplitude 0 --ttl 1s --time-limit 3s"));
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
        &format!("--driver {driver} --nemesis partition --ttl 1s --time-limit 5s"),
        Ran::assert_faults_real,
        |ran| dropped(ran) > 0,
    );
}

fn a_kill_is_real(driver: &str) {
    let ran = test(&format!("--driver {driver} --nemesis kill --seed 1 --ttl 1s --time-limit 5s"));
    ran.assert_faults_real();
}

/// A child that outlives the server holds its shared memory, and keeps the next one from starting.
fn postgres_serves_again_after_a_kill(driver: &str) {
    let fault = "[[fault]]\nat_ms = 1000\nfor_ms = 1\nfault = \"kill\"\non = [\"n1\"]\n";
    let ran = planned(fault, &format!("--driver {driver} --lock postgres-advisory --time-limit 4s"));
    ran.assert_faults_real();
    assert!(ran.history().iter().all(|event| event.f != SERVER_ENDED), "the server did not come back");
    assert_eq!(ran.outcome("progress"), Outcome::Valid);
}

/// They are not started again, and none is left to ask for the lock.
fn a_lock_is_not_blamed_for_clients_that_are_all_killed(driver: &str) {
    let fault = "[[fault]]\nat_ms = 800\nfor_ms = 1\nfault = \"kill\"\non = [\"c1\", \"c2\"]\n";
    let args = "--lock redis-single --clients 2 --concurrency 4 --ttl 1s --time-limit 2s";
    let ran = planned(fault, &format!("--driver {driver} {args}"));
    ran.assert_faults_real();
    assert_eq!(ran.outcome("progress"), Outcome::Unknown);
    assert_eq!(ran.code, 2);
}

/// etcd counts leases by the monotonic clock: whatever the time of day does, the lock holds.
fn etcd_holds_when_wall_clocks_jump(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock etcd --guard token --nemesis clock-jump --clock wall --seed 1 --time-limit 8s"
    ));
    ran.assert_faults_real();
    assert_eq!(ran.code, 0);
    for checker in ["exclusion", "lost-updates", "fencing"] {
        assert_eq!(ran.outcome(checker), Outcome::Valid, "{checker}");
    }
}
