//! Locks without faults: each lock, variant and guard holds, and the canary shows that the checkers would say
//! otherwise.

use crate::common::{test, test_drawn, under};
use fencepost_checker::{Outcome, RunIndex};
use fencepost_history::{Kind, f};
use fencepost_locks::{LockDefinition, Options};
use fencepost_storage::Need;

under!(
    local: [
        every_lock_holds_without_faults,
        chubby_shares_among_readers,
        the_lock_workload_holds_without_faults,
        variants_of_redlock_hold_without_faults,
        guards_let_honest_holders_write,
        a_set_keeps_what_was_added,
    ],
    local_by_night: [
        every_lock_alone_holds_without_faults,
        drawn_sections_hold_without_faults,
        variants_of_redis_locks_hold_without_faults,
        counters_on_each_node_leave_the_lock_as_it_is,
        a_watchdog_outlives_the_ttl,
        a_herd_is_measured,
    ],
    docker: [],
    docker_by_night: [
        redlock_holds_without_faults,
        etcd_holds_without_faults,
        every_lock_alone_holds_without_faults,
        every_lock_holds_without_faults,
        drawn_sections_hold_without_faults,
        chubby_shares_among_readers,
        the_lock_workload_holds_without_faults,
        variants_of_redis_locks_hold_without_faults,
        variants_of_redlock_hold_without_faults,
        counters_on_each_node_leave_the_lock_as_it_is,
        a_watchdog_outlives_the_ttl,
        guards_let_honest_holders_write,
        a_set_keeps_what_was_added,
        a_herd_is_measured,
    ],
);

/// Acquires after which a run without faults has shown what it can show.
const ENOUGH: usize = 40;

/// Ends after so many acquires; the time limit is for a machine that is busy with other things.
fn holds_without_faults(args: &str) {
    // A machine that is busy with other tests may stop a client for longer than the usual TTL, and where
    // servers take seconds to answer, attempts that are given up keep each other from a lock that is free.
    let ran = test(&format!(
        "--nemesis none --hold 20ms --ttl 5s --acquire-timeout 20s --acquisitions {ENOUGH} --time-limit 300s {args}"
    ));
    assert_eq!(ran.code, 0);
    let acquired =
        ran.history().iter().filter(|event| event.f == f::ACQUIRE && event.kind == Kind::Ok).count();
    assert!(acquired >= ENOUGH, "only {acquired} acquisitions");
    for verdict in ran.verdict().verdicts {
        assert_eq!(verdict.outcome, Outcome::Valid, "{}: {}", verdict.checker, verdict.summary);
    }
}

/// Each lock of the registry that has servers, side by side, with its token at the storage where it gives
/// one.
fn every_lock_holds_without_faults(driver: &str) {
    for_every_lock(|lock| {
        let token = lock.capabilities(&Options::default()).token;
        let guard = if token { "token" } else { "none" };
        let name = lock.name;
        holds_without_faults(&format!(
            "--driver {driver} --lock {name} --workload increment --guard {guard}"
        ));
    });
}

/// The same with nothing but the lock itself to judge.
fn every_lock_alone_holds_without_faults(driver: &str) {
    for_every_lock(|lock| {
        holds_without_faults(&format!("--driver {driver} --lock {} --workload lock", lock.name));
    });
}

fn for_every_lock(run: impl Fn(&LockDefinition) + Sync) {
    std::thread::scope(|threads| {
        for lock in fencepost_locks::registry().iter().filter(|lock| !lock.service.servers.is_empty()) {
            threads.spawn(|| run(lock));
        }
    });
}

fn redlock_holds_without_faults(driver: &str) {
    holds_without_faults(&format!("--driver {driver} --lock redlock"));
}

fn etcd_holds_without_faults(driver: &str) {
    holds_without_faults(&format!("--driver {driver} --lock etcd --guard token"));
}

fn chubby_shares_among_readers(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock chubby --readers 7 --nemesis none --acquisitions 60 --time-limit 300s --hold 200ms \
         --lock-delay 2s"
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

fn the_lock_workload_holds_without_faults(driver: &str) {
    holds_without_faults(&format!("--driver {driver} --lock redis-single --workload lock --keys 3"));
}

/// Each guard of the registry, with the first lock that gives what it needs.
fn guards_let_honest_holders_write(driver: &str) {
    for guard in fencepost_storage::guards() {
        let gives = |lock: &&&LockDefinition| {
            let can = lock.capabilities(&Options::default());
            !can.own_storage
                && !lock.service.servers.is_empty()
                && match guard.needs {
                    Need::Nothing => true,
                    Need::Token => can.token,
                    Need::UniqueValue => can.unique_value,
                    Need::Sequencer => can.sequencer,
                }
        };
        let lock = fencepost_locks::registry().iter().find(gives).expect("a lock that gives it").name;
        holds_without_faults(&format!("--driver {driver} --lock {lock} --guard {}", guard.name));
    }
    holds_without_faults(&format!("--driver {driver} --lock chubby --guard sequencer --lock-delay 3s"));
    holds_without_faults(&format!("--driver {driver} --lock redlock --guard unique-racy"));
}

fn a_set_keeps_what_was_added(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock redis-single --workload set --nemesis none --hold 10ms --acquisitions 60 \
         --time-limit 300s"
    ));
    assert_eq!(ran.code, 0);
    assert_eq!(ran.outcome("lost-additions"), Outcome::Valid);
    let figures = ran.verdict().metrics;
    assert_eq!((figures[0].name.as_str(), figures[0].value), ("acknowledged additions lost", 0.0));
    assert!(figures[0].interval.is_some_and(|[_, high]| high > 0.0 && high < 50.0), "{figures:?}");
    assert!(ran.stdout.contains("acknowledged additions lost 0.0 %"), "{}", ran.stdout);
    let canary = test(&format!(
        "--driver {driver} --lock canary-nolock --workload set --nemesis none --hold 10ms --acquisitions 150 \
         --time-limit 300s"
    ));
    assert_eq!(canary.outcome("lost-additions"), Outcome::Violation);
    assert!(canary.verdict().metrics[0].value > 10.0, "{:?}", canary.verdict().metrics);
}

fn a_herd_is_measured(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock etcd --workload herd --nemesis none --hold 10ms --concurrency 20 \
         --acquire-timeout 60s --acquisitions 60 --time-limit 300s"
    ));
    assert_eq!(ran.code, 0);
    let figures = ran.verdict().metrics;
    let figure = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    // Each waiter watches the one before it, and is woken by its release alone.
    let wakeups = figure("wake-ups a release").expect("etcd tells");
    assert!(wakeups > 0.5 && wakeups < 1.5, "{figures:?}");
    assert_eq!(figure("grants that went past an earlier waiter"), Some(0.0), "{figures:?}");
}

/// Without faults even the wrong variants of a lock hold.
fn variants_of_redis_locks_hold_without_faults(driver: &str) {
    for variant in [
        "redis-single --release get-del --workload lock",
        "redis-single --release blind",
        "redis-single --acquire setnx-expire",
        "redis-single --acquire no-ttl",
        "redis-single --value fixed",
        "redis-sentinel --wait 1",
    ] {
        holds_without_faults(&format!("--driver {driver} --lock {variant}"));
    }
}

/// As [`variants_of_redis_locks_hold_without_faults`].
fn variants_of_redlock_hold_without_faults(driver: &str) {
    for variant in [
        "--no-elapsed-check --client-clock wall",
        // Two cannot split the votes of five for long; more can, which is what the variant is there to show.
        "--no-retry-jitter --clients 2 --concurrency 2",
        // A key whose answer came too late stays until its TTL; with two processes that costs a turn.
        "--release-where seen --workload lock --clients 2 --concurrency 2",
        "--token incr-one --guard token",
    ] {
        holds_without_faults(&format!("--driver {driver} --lock redlock {variant}"));
    }
}

/// A counter on each node is no fencing token, even without faults: not every lock is granted by all nodes,
/// so the counters come apart, and tokens repeat sooner or later. The lock itself holds.
fn counters_on_each_node_leave_the_lock_as_it_is(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --token incr-each --guard token --nemesis none --acquisitions 20 --time-limit 300s"
    ));
    assert_eq!(ran.outcome("exclusion"), Outcome::Valid);
    let tokens = ran.history().iter().filter(|event| event.value["token"].is_u64()).count();
    assert!(tokens > 10, "only {tokens} tokens");
}

/// Some sections end just before the lease does, and still no process goes on beyond it.
fn drawn_sections_hold_without_faults(driver: &str) {
    let ran = test_drawn(&format!(
        "--driver {driver} --lock redis-single --nemesis none --acquisitions 60 --time-limit 300s --ttl 2s"
    ));
    assert_eq!(ran.code, 0);
    let history = ran.history();
    let sections = history.iter().filter(|event| event.f == f::ACQUIRE && event.kind == Kind::Invoke);
    let planned: Vec<u64> = sections.filter_map(|event| event.value["hold_ms"].as_u64()).collect();
    assert!(planned.len() >= 60 && planned.iter().all(|ms| *ms <= 1600), "{planned:?}");
    let longest =
        RunIndex::new(&history).unwrap().holds.iter().map(|hold| hold.ends.let_go_ns - hold.from_ns).max();
    assert!(longest > Some(800_000_000), "the longest section took {longest:?} ns");
}

fn a_watchdog_outlives_the_ttl(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock redis-single --watchdog --ttl 5s --hold 12s --acquire-timeout 60s --acquisitions 2 \
         --time-limit 300s --clients 2 --concurrency 2 --nemesis none"
    ));
    assert_eq!(ran.code, 0);
    let history = ran.history();
    let renewed = history.iter().filter(|event| event.f == f::RENEWED).count();
    // A section of 12 s is longer than two leases of 5 s: without two renewals it would have lost the lock.
    assert!(renewed >= 2, "only {renewed} renewals");
    let longest =
        RunIndex::new(&history).unwrap().holds.iter().map(|hold| hold.ends.let_go_ns - hold.from_ns).max();
    assert!(longest >= Some(12_000_000_000), "the longest section took {longest:?} ns");
    assert!(history.iter().all(|event| event.f != f::LOST), "a lock was lost without faults");
}
