//! Faults on real clusters: what they do to a lock, and that a run says so. A machine without Docker engine
//! or root fails these tests: they are what guards the rest.

use crate::common::{directed, planned, test, under};
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

/// The run goes on for many sections of a fifth of a second after the fault began.
fn sentinels_promote_a_replica(driver: &str) {
    let fault = "[[fault]]\nwhen = 'any acquire'\nfault = 'kill'\non = ['n1']\n";
    let args = "--lock redis-sentinel --hold 200ms --acquisitions 50 --time-limit 300s";
    let ran = planned(fault, &format!("--driver {driver} {args}"));
    ran.assert_faults_real();
    let by_another = |event: &&Event| {
        event.f == f::ACQUIRE && event.kind == Kind::Ok && event.value["granted_by"][0] != "n1"
    };
    assert!(ran.history().iter().filter(by_another).count() > 0, "only n1 granted the lock");
}

/// The scenario's events decide when each step comes, so the second grant is certain. The verdict is the
/// same from the folder alone, with neither engine nor servers in reach.
fn redlock_breaks_when_clocks_jump(driver: &str) {
    let ran = directed("redlock-clock-jump", &format!("--driver {driver}"));
    ran.assert_faults_real();
    assert!(ran.findings("exclusion", "granted-twice") > 0);
    let report = std::fs::read_to_string(ran.folder().join("report.html")).expect("a report");
    assert!(report.contains("<svg"), "the report has a picture");
    let (code, text) = ran.analyzed();
    assert_eq!(code, Some(1));
    assert!(text.contains("jumped"), "the story names the fault: {text}");
}

/// Stopped after its read until another client has written, it writes what it had read.
const STOPPED_HOLDER: &str = r#"
about = "a holder is stopped for longer than its lease, and writes when another has written"
ttl = "2s"
acquire-timeout = "60s"
time-limit = "300s"

[[client]]
name = "c1"
script = ["acquire", "read", "wait c2 write", "write", "release"]

[[client]]
name = "c2"
script = ["wait pause injected", "acquire", "read", "write", "wait pause healed", "release"]

[[fault]]
when = "c1 read"
fault = "pause"
on = ["c1"]
for = "300s"
until = "c2 write"
"#;

fn a_stopped_holder_loses_updates(driver: &str) {
    let expected = "lock = 'redis-single'\nguard = 'none'\n[[expect]]\nviolation = { checker = 'lost-updates', class = 'lost-update' }\n";
    let ran = directed(&with(STOPPED_HOLDER, expected), &format!("--driver {driver}"));
    assert_eq!(ran.code, 0, "the scenario shows it");
    ran.assert_faults_real();
    assert_eq!(ran.outcome("lost-updates"), Outcome::Violation);
    assert_eq!(ran.analyzed().0, Some(1));
}

/// The same with a token that the storage compares: the late write is rejected.
fn a_token_protects_the_data(driver: &str) {
    let expected = "lock = 'etcd'\nguard = 'token'\n[[expect]]\nholds = 'lost-updates'\n";
    let ran = directed(&with(STOPPED_HOLDER, expected), &format!("--driver {driver}"));
    assert_eq!(ran.code, 0, "the scenario shows it");
    ran.assert_faults_real();
    assert_eq!(ran.outcome("lost-updates"), Outcome::Valid);
    assert_eq!(ran.outcome("fencing"), Outcome::Valid);
    let stale = |event: &Event| {
        let error = event.error.as_ref();
        error.is_some_and(|error| error.is_rejected() && error.detail().starts_with("stale-token"))
    };
    assert!(ran.history().iter().any(stale), "the late write was not rejected");
}

/// A scenario with these keys at its beginning, and these tables at its end.
fn with(scenario: &str, more: &str) -> String {
    let (keys, tables) = more.split_at(more.find("[[").expect("an expectation"));
    format!("{keys}{scenario}\n{tables}")
}

fn the_canary_is_caught(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock canary-nolock --nemesis none --acquisitions 100 --time-limit 300s"
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

/// The probes of the fault itself are dropped, too.
fn a_partition_is_real(driver: &str) {
    let plan = "[[fault]]\nwhen = 'any acquire'\nfor = '1s'\nfault = 'partition'\ngroups = 'c1,c2|n1,n2'\n";
    let ran = planned(plan, &format!("--driver {driver} --brief --time-limit 300s"));
    ran.assert_all_effective(&["partition"]);
    let healed = ran.stages("heal", Kind::Ok);
    let observed = healed.iter().filter_map(|value| value["observed"].as_object());
    let dropped: u64 = observed.flatten().filter_map(|(_, node)| node["packets_dropped"].as_u64()).sum();
    assert!(dropped > 0, "{healed:?}");
}

fn a_kill_is_real(driver: &str) {
    let plan = "[[fault]]\nwhen = 'any acquire'\nfor = '500ms'\nfault = 'kill'\non = ['n1', 'n2']\n";
    let ran = planned(plan, &format!("--driver {driver} --brief --time-limit 300s"));
    ran.assert_all_effective(&["kill"]);
}

/// A child that outlives the server holds its shared memory, and keeps the next one from starting.
fn postgres_serves_again_after_a_kill(driver: &str) {
    let fault = "[[fault]]\nwhen = 'any acquire'\nfor = '1ms'\nfault = 'kill'\non = ['n1']\n";
    let ran =
        planned(fault, &format!("--driver {driver} --lock postgres-advisory --brief --time-limit 300s"));
    ran.assert_faults_real();
    assert!(ran.history().iter().all(|event| event.f != SERVER_ENDED), "the server did not come back");
    assert_eq!(ran.outcome("progress"), Outcome::Valid);
}

/// They are not started again, and none is left to ask for the lock.
fn a_lock_is_not_blamed_for_clients_that_are_all_killed(driver: &str) {
    let fault = "[[fault]]\nwhen = 'any acquire'\nfor = '1ms'\nfault = 'kill'\non = ['c1', 'c2']\n";
    let args = "--lock redis-single --clients 2 --concurrency 4 --ttl 1s --brief --time-limit 300s";
    let ran = planned(fault, &format!("--driver {driver} {args}"));
    ran.assert_faults_real();
    assert_eq!(ran.outcome("progress"), Outcome::Unknown);
    assert_eq!(ran.code, 2);
}

/// etcd counts leases by the monotonic clock: whatever the time of day does, the lock holds.
fn etcd_holds_when_wall_clocks_jump(driver: &str) {
    let jump = |when: &str, wall: &str| {
        format!(
            "[[fault]]\nwhen = '{when}'\nfor = '1s'\nfault = 'clock-jump'\non = ['n1', 'n2', 'n3']\nwall = '{wall}'\n"
        )
    };
    let plan = jump("any acquire", "60s") + &jump("clock-jump healed", "-60s");
    let args = "--lock etcd --guard token --brief --time-limit 300s";
    let ran = planned(&plan, &format!("--driver {driver} {args}"));
    ran.assert_all_effective(&["clock-jump", "clock-jump"]);
    assert_eq!(ran.code, 0);
    for checker in ["exclusion", "lost-updates", "fencing"] {
        assert_eq!(ran.outcome(checker), Outcome::Valid, "{checker}");
    }
}
