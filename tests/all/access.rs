//! Servers that speak TLS and ask for a password: every service holds as it does without, and no secret comes
//! out.

use crate::common::waiting::look_while;
use crate::common::{Ran, Running, await_history, planned, root, test, under};
use fencepost_checker::Outcome;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

under!(
    local: [
        redis_holds_under_kill,
        a_mistake_in_the_access_is_one_sentence,
        no_secret_comes_out
    ],
    local_by_night: [
        redlock_holds_under_kill,
        sentinel_holds_without_faults,
        etcd_holds_under_kill,
        sequencers_are_checked_under_kill,
        zookeeper_holds_under_kill,
        postgres_holds_under_kill,
        mariadb_holds_under_kill,
        every_mistake_in_the_access_is_one_sentence,
    ],
    docker: [],
    docker_by_night: [
        redis_holds_under_kill,
        redlock_holds_under_kill,
        sentinel_holds_without_faults,
        etcd_holds_under_kill,
        sequencers_are_checked_under_kill,
        zookeeper_holds_under_kill,
        postgres_holds_under_kill,
        mariadb_holds_under_kill,
        no_secret_comes_out
    ],
);

/// A run on servers that speak TLS and ask for a password.
fn secured(driver: &str, args: &str) -> String {
    format!("--tls --auth --driver {driver} --time-limit 300s {args}")
}

fn holds(driver: &str, args: &str) {
    let ran = test(&secured(driver, &format!("--acquisitions 40 {args}")));
    assert_eq!(ran.outcome("exclusion"), Outcome::Valid);
}

/// A server that is started again, in the middle of things.
const KILL: &str = "[[fault]]\nwhen = 'any acquire 5 times'\nfor = '500ms'\nfault = 'kill'\non = ['n1']\n";

fn under_kill(driver: &str, args: &str) -> Ran {
    let ran = planned(KILL, &secured(driver, &format!("--brief {args}")));
    ran.assert_all_effective(&["kill"]);
    ran
}

fn holds_under_kill(driver: &str, args: &str) {
    assert_eq!(under_kill(driver, args).outcome("exclusion"), Outcome::Valid);
}

fn redis_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock redis-single --redis-persistence always");
}

fn redlock_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock redlock --redis-persistence always");
}

fn sentinel_holds_without_faults(driver: &str) {
    holds(driver, "--lock redis-sentinel");
}

fn etcd_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock etcd");
}

fn sequencers_are_checked_under_kill(driver: &str) {
    let ran = under_kill(driver, "--lock chubby --guard sequencer --lock-delay 1s");
    assert_eq!(ran.outcome("lost-updates"), Outcome::Valid);
}

fn zookeeper_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock zookeeper-sequential");
}

fn postgres_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock postgres-advisory");
}

fn mariadb_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock mariadb-advisory");
}

const FOREIGN: &str = "has a certificate of an authority that the client does not trust";
const PASSWORD: &str = "does not take the password of the user fencepost";

/// The service that [`redis_holds_under_kill`] has by day.
fn a_mistake_in_the_access_is_one_sentence(driver: &str) {
    for (lock, spoiled, sentence) in [
        ("redis-single", "password", PASSWORD),
        ("redis-single", "authority", FOREIGN),
        ("redlock", "plain", "speaks TLS, and the client does not"),
    ] {
        assert_one_sentence(driver, lock, spoiled, sentence);
    }
}

fn every_mistake_in_the_access_is_one_sentence(driver: &str) {
    for (lock, spoiled, sentence) in [
        ("redis-single", "password", PASSWORD),
        ("etcd", "password", PASSWORD),
        ("zookeeper-sequential", "password", PASSWORD),
        ("postgres-advisory", "password", PASSWORD),
        ("mariadb-advisory", "password", PASSWORD),
        ("redis-single", "authority", FOREIGN),
        ("etcd", "authority", FOREIGN),
        ("zookeeper-sequential", "authority", FOREIGN),
        ("postgres-advisory", "authority", FOREIGN),
        ("mariadb-advisory", "authority", FOREIGN),
        ("redlock", "plain", "speaks TLS, and the client does not"),
        ("etcd", "plain", "speaks TLS, and the client does not"),
        ("zookeeper-sequential", "plain", "speaks TLS, and the client does not"),
        ("mariadb-advisory", "plain", "speaks TLS, and the client does not"),
    ] {
        assert_one_sentence(driver, lock, spoiled, sentence);
    }
}

/// The client is Fencepost's own, whose access a program in between spoils.
fn assert_one_sentence(driver: &str, lock: &str, spoiled: &str, sentence: &str) {
    let folder = format!("{}/tests/locks/spoils-its-access", root());
    let client = format!("python3 client.py {lock} {spoiled}");
    let results = tempfile::tempdir().expect("a temporary folder");
    let results_path = results.path().to_str().expect("a path in UTF-8");
    let args = ["test", "--tls", "--auth", "--driver", driver, "--lock", lock, "--client", &client];
    // The run ends with the client.
    let more = [
        "--client-files",
        &folder,
        "--client-packages",
        "python3",
        "--results",
        results_path,
        "--time-limit",
        "300s",
    ];
    let words: Vec<&str> = args.iter().chain(&more).copied().collect();
    let ran = Ran::new(crate::common::output(&words), results);
    assert_eq!(ran.code, 255, "{lock} {spoiled}: {}", ran.stderr);
    assert!(ran.stderr.contains(sentence), "{lock} {spoiled}: {}", ran.stderr);
}

/// A client tells its password backwards in its log. Forwards it stands nowhere: in no file of the run, no
/// output, and no command line on this machine, at any time, and for certain while the lock is in use.
fn no_secret_comes_out(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let (lock, folder) =
        (format!("{}/tests/locks/tells-its-password", root()), results.path().to_str().expect("UTF-8"));
    let args = ["test", "--tls", "--auth", "--driver", driver, "--lock", &lock, "--results", folder];
    let more = ["--nemesis", "kill", "--time-limit", "6s"];
    let words: Vec<&str> = args.iter().chain(&more).copied().collect();
    let mut command_lines = BTreeSet::new();
    let (output, in_use) = look_while(
        || command_lines.extend(command_lines_now()),
        || {
            let running = Running::start(&words);
            await_history(results.path(), "the lock is in use", |history| history.contains("\"acquire\""));
            let in_use = command_lines_now();
            (running.finish(), in_use)
        },
    );
    assert!(in_use.iter().any(|line| contains(line, "redis-server")), "servers were watched");
    command_lines.extend(in_use);
    let ran = Ran::new(output, results);
    let files = files_in(&ran.folder());
    let contents: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("a readable file")).collect();
    let password = contents.iter().find_map(|content| password_in(content)).expect("the client logged it");
    assert_eq!(password.len(), 32, "{password}");
    for (file, content) in files.iter().zip(&contents) {
        assert!(!contains(content, &password), "{} has the password", file.display());
        assert!(!contains(content, "PRIVATE KEY"), "{} has a key", file.display());
    }
    assert!(!ran.stdout.contains(&password) && !ran.stderr.contains(&password));
    for line in &command_lines {
        assert!(!contains(line, &password), "{}", String::from_utf8_lossy(line));
    }
}

/// All command lines of this machine now. A program that ends at once may be missed.
pub fn command_lines_now() -> BTreeSet<Vec<u8>> {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok()).collect()
}

pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

fn password_in(log: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(log);
    let password = text.split("drowssap: ").nth(1)?.split_whitespace().next()?.chars().rev().collect();
    Some(password)
}

pub fn contains(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|part| part == text.as_bytes())
}
