//! Kinds of locks but mutexes, on real servers: each holds under faults, and each planted mistake is found.

use crate::common::{Ran, planned, test, test_drawn, under, written};
use fencepost_checker::{Outcome, Whose};
use fencepost_history::{Kind, f};

under!(
    local: [
        read_write_locks_hold_under_pauses_and_partitions,
        semaphores_hold_under_pauses_and_partitions,
        planted_mistakes_of_read_write_locks_are_found,
        planted_mistakes_of_semaphores_are_found,
        a_lock_that_is_prolonged_holds_and_a_blind_prolong_is_found,
        elections_hold_under_faults,
        reentrant_locks_hold_under_pauses_and_partitions,
        planted_mistakes_of_reentrant_locks_are_found,
        locks_on_several_names_hold_under_faults,
    ],
    local_by_night: [
        planted_mistakes_of_locks_on_several_names_are_found,
        half_a_set_that_a_connection_left_is_found,
        a_renewal_that_a_cancelled_call_left_is_found,
        a_lock_that_a_client_keeps_when_it_is_asked_to_end_is_found,
        a_queue_that_grants_out_of_order_is_found,
        a_torn_read_is_found,
        planted_mistakes_of_elections_are_found,
        a_job_runs_twice_where_clients_go_by_their_own_clocks,
        jobs_run_once_a_tick_under_faults,
    ],
    docker: [],
    docker_by_night: [
        read_write_locks_hold_under_pauses_and_partitions,
        semaphores_hold_under_pauses_and_partitions,
        elections_hold_under_faults,
        reentrant_locks_hold_under_pauses_and_partitions,
        locks_on_several_names_hold_under_faults,
    ],
);

/// A run under faults that the lock must survive. What a client did late, no lock prevents.
fn holds(args: &str) -> Ran {
    let ran = test(&format!("--careful --ttl 3s --time-limit 12s --seed 7 {args}"));
    let verdict = ran.verdict();
    let whose = verdict.attributions();
    assert!(whose.iter().all(|each| each.whose == Whose::NoFence), "{args}: {whose:?}");
    assert_eq!(ran.outcome("progress"), Outcome::Valid, "{args}");
    assert_ne!(verdict.outcome, Outcome::Vacuous, "{args}");
    ran
}

/// Of locks with their nemeses those that are played by day: the first ones. By night all are, in an engine.
fn of_the_day<T>(driver: &str, many: usize, locks: &'static [T]) -> &'static [T] {
    if driver == "local" { &locks[..many] } else { locks }
}

/// How many certainly held the lock at once at most, as the grants and the beginnings of releases show.
fn most_inside(ran: &Ran) -> i64 {
    let (mut inside, mut most) = (0_i64, 0);
    for event in ran.history() {
        match (event.f.as_ref(), event.kind) {
            (f::ACQUIRE, Kind::Ok) => inside += 1,
            (f::RELEASE, Kind::Invoke) => inside -= 1,
            _ => {}
        }
        most = most.max(inside);
    }
    most
}

fn read_write_locks_hold_under_pauses_and_partitions(driver: &str) {
    let locks = &[
        ("redis-read-write", "pause,partition"),
        ("etcd-read-write", "pause,partition"),
        ("zookeeper-read-write", "pause,partition"),
        // A holder that is cut off learns of it later than the server.
        ("postgres-read-write", "pause"),
    ];
    for (lock, nemesis) in of_the_day(driver, 2, locks) {
        let ran = holds(&format!("--driver {driver} --lock {lock} --nemesis {nemesis}"));
        assert!(most_inside(&ran) > 1, "{lock}: no readers were inside together");
    }
}

fn semaphores_hold_under_pauses_and_partitions(driver: &str) {
    for lock in of_the_day(driver, 1, &["redis-semaphore", "zookeeper-semaphore", "etcd-semaphore"]) {
        let ran = holds(&format!("--driver {driver} --lock {lock} --nemesis pause,partition"));
        assert_eq!(ran.outcome("users"), Outcome::Valid, "{lock}");
        assert!(most_inside(&ran) > 1, "{lock}: no holders were inside together");
    }
}

/// Found by a run of this length as the library's, and said in these words. The TTL is long: on a busy
/// machine a short one may have run out.
fn is_found(args: &str, checker: &str, words: &str) {
    is_found_at("--ttl 20s --hold 20ms", args, checker, words);
}

fn is_found_at(pace: &str, args: &str, checker: &str, words: &str) {
    let ran = test(&format!("--time-limit 60s {pace} --fail-fast {args}"));
    let verdict = ran.verdict();
    let found = verdict.of_checker(checker).expect("judged");
    assert_eq!(found.outcome, Outcome::Violation, "{args}: {}", found.summary);
    let finding = &found.findings[0];
    assert_eq!(finding.whose, Some(Whose::Library), "{args}: {}", finding.sentence);
    assert!(finding.sentence.contains(words), "{args}: {}", finding.sentence);
}

fn planted_mistakes_of_read_write_locks_are_found(driver: &str) {
    is_found(
        &format!("--driver {driver} --lock redis-read-write --look-and-take apart --seed 1"),
        "exclusion",
        ": a reader beside a writer; ",
    );
    is_found(
        &format!("--driver {driver} --lock zookeeper-read-write --nearest-only --seed 1"),
        "exclusion",
        ": a reader beside a writer; ",
    );
}

fn planted_mistakes_of_semaphores_are_found(driver: &str) {
    let of = |lock: &str| format!("--driver {driver} --lock {lock} --seed 1 --permits 2");
    let words = ": 3 holders of 2 permits; ";
    is_found(&of("redis-semaphore --semaphore-order counter-before"), "exclusion", words);
    is_found(&of("redis-semaphore --semaphore-order clocks"), "exclusion", words);
    is_found(&of("zookeeper-semaphore --count-first"), "exclusion", words);
    is_found(&of("etcd-semaphore --count-first"), "exclusion", words);
}

/// The data show it, too.
fn a_torn_read_is_found(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock zookeeper-read-write --nearest-only --seed 2 --time-limit 20s --readers 7"
    ));
    assert_eq!(ran.outcome("torn-reads"), Outcome::Violation);
    let verdict = ran.verdict();
    let finding = &verdict.of_checker("torn-reads").expect("judged").findings[0];
    assert_eq!((finding.class.as_str(), finding.whose), ("torn-read", Some(Whose::Library)));
}

fn a_lock_that_is_prolonged_holds_and_a_blind_prolong_is_found(driver: &str) {
    let args = format!("--driver {driver} --lock redis-single --workload prolong --ttl 1s --seed 7");
    let held = test_drawn(&format!("{args} --time-limit 8s"));
    assert_eq!(held.outcome("exclusion"), Outcome::Valid);
    assert_eq!(held.outcome("renewal"), Outcome::Valid);
    let history = held.history();
    assert!(history.iter().any(|event| event.f == f::PROLONG && event.kind == Kind::Ok));
    let blind = test_drawn(&format!("{args} --prolong blind --time-limit 90s --fail-fast"));
    let verdict = blind.verdict();
    let finding = &verdict.of_checker("renewal").expect("judged").findings[0];
    // Its own lock was gone, or another's by then.
    assert!(["prolonged-when-lost", "revived"].contains(&finding.class.as_str()), "{finding:?}");
    assert_eq!(finding.whose, Some(Whose::Library));
}

fn elections_hold_under_faults(driver: &str) {
    let locks = &[
        ("kubernetes-election", "pause,partition,clock-jump"),
        ("redis-election", "pause,partition"),
        ("etcd-election", "pause,partition"),
        ("zookeeper-election", "pause,partition"),
        ("postgres-election", "pause"),
    ];
    for (lock, nemesis) in of_the_day(driver, 2, locks) {
        let ran = holds(&format!("--driver {driver} --lock {lock} --nemesis {nemesis}"));
        assert_eq!(ran.outcome("leadership"), Outcome::Valid, "{lock}");
        assert!(most_inside(&ran) > 0, "{lock}: no process led");
    }
}

/// That of `kubernetes-election` is found by its scenario.
fn planted_mistakes_of_elections_are_found(driver: &str) {
    let words = ": two leaders; ";
    let found = |pace: &str, args: &str| {
        is_found_at(pace, &format!("--driver {driver} --seed 1 {args}"), "exclusion", words);
    };
    // A candidate gives up before the leader resigns.
    found("--ttl 20s --hold 3s --acquire-timeout 1s", "--lock etcd-election --nearest-only");
    found("--ttl 2s --hold 3s", "--lock redis-election --blind-renewal --nemesis pause");
    for (lock, servers) in [("zookeeper-election", "n1,n2,n3"), ("postgres-election", "n1")] {
        let plan = format!(
            "[[fault]]\nafter = \"1s\"\nfault = \"partition\"\non = [\"holder\"]\ngroups = \"holder|{servers}\"\nfor = \"9s\""
        );
        let args = format!("--driver {driver} --seed 1 --lock {lock} --unwatched");
        let ran = planned(&plan, &format!("{args} --ttl 2s --hold 9s --time-limit 12s"));
        let verdict = ran.verdict();
        let findings = &verdict.of_checker("exclusion").expect("judged").findings;
        assert!(findings.iter().any(|each| each.sentence.contains(words)), "{lock}: {findings:?}");
        // Of a connection it is not known when it was over, so not that its library had to know.
        let is_session = lock == "zookeeper-election";
        let by_library = findings.iter().any(|each| each.whose == Some(Whose::Library));
        assert_eq!(by_library, is_session, "{lock}: {findings:?}");
    }
}

fn reentrant_locks_hold_under_pauses_and_partitions(driver: &str) {
    let ran = holds(&format!("--driver {driver} --lock redis-reentrant --nemesis pause,partition"));
    assert_eq!(ran.outcome("reentry"), Outcome::Valid);
    let history = ran.history();
    assert!(history.iter().any(|event| event.f == f::LEAVE && event.kind == Kind::Ok));
}

fn planted_mistakes_of_reentrant_locks_are_found(driver: &str) {
    for (reentry, class, words) in [
        ("uncounted", "released-too-early", "removed the lock, before it had released the outer one"),
        ("release-all", "released-too-early", "removed the lock, before it had released the outer one"),
        ("twice", "released-too-late", "this release says that it removed nothing"),
    ] {
        let args = format!("--driver {driver} --lock redis-reentrant --reentry {reentry} --seed 1");
        // So many sections that processes cross, on a busy machine, too; a lock that stays taken has few.
        let length = match class {
            "released-too-early" => "--acquisitions 300 --time-limit 120s",
            _ => "--time-limit 4s",
        };
        let ran = test(&format!("{length} --ttl 1s --hold 20ms {args}"));
        let verdict = ran.verdict();
        let finding = &verdict.of_checker("reentry").expect("judged").findings[0];
        assert_eq!((finding.class.as_str(), finding.whose), (class, Some(Whose::Library)), "{finding:?}");
        assert!(finding.sentence.contains(words), "{}", finding.sentence);
        // Another process comes in, and the counter shows it; or none comes in for as long as the TTL.
        let beside = if class == "released-too-early" { Outcome::Violation } else { Outcome::Valid };
        assert_eq!([ran.outcome("exclusion"), ran.outcome("lost-updates")], [beside; 2], "{reentry}");
    }
}

fn locks_on_several_names_hold_under_faults(driver: &str) {
    let locks = &[
        ("redis-several", "pause,partition"),
        // A holder that is cut off learns of it later than the server.
        ("postgres-several", "pause"),
    ];
    for (lock, nemesis) in of_the_day(driver, 1, locks) {
        let ran = holds(&format!("--driver {driver} --lock {lock} --nemesis {nemesis}"));
        // A transfer of a holder that was late may be lost: that is of no lock.
        assert!(ran.verdict().of_checker("balances").is_some(), "{lock}");
        // Sets that have no name in common are held together.
        assert!(most_inside(&ran) > 1, "{lock}: no sets were held together");
    }
}

/// Two processes have to cross: within six seconds on a busy machine they may not.
fn planted_mistakes_of_locks_on_several_names_are_found(driver: &str) {
    // Between two names on Redis lies a fraction of a millisecond, in which no two processes meet.
    let late = written(
        "[[fault]]\nwhen = 'any acquire'\nfault = 'delay'\non = ['n1']\npeers = ['c1', 'c2', 'c3', 'c4']\ndelay_ms = 30\nfor = '5s'\n",
    );
    let late = late.path().display();
    let crossing =
        format!("--clients 4 --concurrency 4 --keys 2 --ttl 20s --hold 20ms --nemesis-file {late}");
    let lone = "--clients 2 --concurrency 2 --ttl 4s --hold 20ms --acquire-timeout 600ms";
    for (args, class) in [
        (format!("--lock redis-several --take-names as-asked {crossing} --acquire-timeout 1s"), "deadlock"),
        // PostgreSQL looks for deadlocks after a second.
        (
            format!("--lock postgres-several --take-names as-asked {crossing} --acquire-timeout 2s"),
            "deadlock",
        ),
        (format!("--lock redis-several --take-names leave-half {lone}"), "half-taken"),
    ] {
        let ran = test(&format!("--driver {driver} --seed 1 --time-limit 6s {args}"));
        let verdict = ran.verdict();
        let findings = &verdict.of_checker("sets").expect("judged").findings;
        let finding = findings.iter().find(|finding| finding.class == class);
        assert_eq!(finding.and_then(|finding| finding.whose), Some(Whose::Library), "{args}: {findings:?}");
        assert_eq!([ran.outcome("exclusion"), ran.outcome("balances")], [Outcome::Valid; 2], "{args}");
    }
}

/// Nothing ends what a connection left: each lock is tried for until it must be free.
fn half_a_set_that_a_connection_left_is_found(driver: &str) {
    let ran = test(&format!(
        "--driver {driver} --lock postgres-several --take-names leave-half --seed 1 --time-limit 4s --ttl 2s --hold 20ms --keys 2"
    ));
    assert_eq!([ran.outcome("progress"), ran.outcome("sets")], [Outcome::Violation; 2]);
}

/// Plays a lock of `tests/locks`, without the mistake and with it.
fn twins(driver: &str, lock: &str, plan: &str, args: &str, checker: &str) -> [Outcome; 2] {
    let [name, mistake] = [lock.split('@').next().expect("a name"), lock];
    [name, mistake].map(|lock| {
        let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/locks/").to_owned() + lock;
        let args = format!("--driver {driver} --lock {lock} --seed 1 {args}");
        let ran = if plan.is_empty() { test(&args) } else { planned(plan, &args) };
        let whose = ran.verdict().attributions();
        assert!(whose.iter().all(|each| each.whose == Whose::Library), "{lock}: {whose:?}");
        ran.outcome(checker)
    })
}

const FOUND: [Outcome; 2] = [Outcome::Valid, Outcome::Violation];

fn a_renewal_that_a_cancelled_call_left_is_found(driver: &str) {
    for (lock, cancel) in [("gives-up@acquire", "acquire"), ("gives-up@release", "release,acquire")] {
        let args = format!("--workload lock --cancel {cancel} --hold 20ms --time-limit 6s");
        assert_eq!(twins(driver, lock, "", &args, "progress"), FOUND, "{lock}");
    }
}

fn a_lock_that_a_client_keeps_when_it_is_asked_to_end_is_found(driver: &str) {
    let plan = "[[fault]]\nwhen = { f = \"acquire\", client = \"c1\" }\nfault = \"terminate\"\non = [\"c1\"]";
    let args = "--workload lock --clients 3 --concurrency 3 --ttl 8s --hold 2s --acquire-timeout 6s --time-limit 15s";
    assert_eq!(twins(driver, "ends@keeps", plan, args, "graceful-end"), FOUND);
}

fn a_queue_that_grants_out_of_order_is_found(driver: &str) {
    let args = "--workload herd --hold 20ms --time-limit 5s";
    assert_eq!(twins(driver, "queues@last", "", args, "order"), FOUND);
}

fn a_job_runs_twice_where_clients_go_by_their_own_clocks(driver: &str) {
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/planted/redis@client-clock");
    let plan =
        "[[fault]]\nafter = \"1s\"\nfault = \"clock-jump\"\non = [\"c1\"]\nwall = \"30s\"\nfor = \"20s\"";
    let args = format!("--driver {driver} --lock {lock} --workload tick --ttl 2s --seed 1 --time-limit 15s");
    let ran = planned(plan, &args);
    let verdict = ran.verdict();
    let finding = &verdict.of_checker("ticks").expect("judged").findings[0];
    assert_eq!((finding.class.as_str(), finding.whose), ("ran-twice", Some(Whose::Library)), "{finding:?}");
    assert!(finding.sentence.contains(" ran twice: process "), "{}", finding.sentence);
}

fn jobs_run_once_a_tick_under_faults(driver: &str) {
    for (lock, nemesis) in
        [("redis-single", "pause"), ("etcd", "pause,partition"), ("postgres-advisory", "kill")]
    {
        let args = format!("--driver {driver} --lock {lock} --nemesis {nemesis} --workload tick --ttl 2s");
        let ran = test(&format!("{args} --seed 7 --time-limit 20s"));
        assert_eq!(ran.outcome("ticks"), Outcome::Valid, "{args}");
        let history = ran.history();
        let ticks = history.iter().filter(|event| event.f == f::WRITE && event.kind == Kind::Ok);
        assert!(ticks.count() > 3, "{args}: hardly any job ran");
    }
}
