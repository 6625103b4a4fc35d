//! Servers that speak TLS and ask for a password: every service holds as it does without, and no secret comes
//! out.

use crate::common::turn::Weight;
use crate::common::{Ran, Running, fencepost, root, under, weighed};
use fencepost_checker::Outcome;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

under!(
    local: [
        redis_holds_under_kill,
        redlock_holds_under_kill,
        sentinel_holds_in_peace,
        etcd_holds_under_kill,
        sequencers_are_checked_under_kill,
        zookeeper_holds_under_kill,
        postgres_holds_under_kill,
        mariadb_holds_under_kill,
        a_mistake_in_the_access_is_one_sentence,
        no_secret_comes_out
    ],
    docker: [redis_holds_under_kill],
    docker_by_night: [
        redlock_holds_under_kill,
        sentinel_holds_in_peace,
        etcd_holds_under_kill,
        sequencers_are_checked_under_kill,
        zookeeper_holds_under_kill,
        postgres_holds_under_kill,
        mariadb_holds_under_kill,
        no_secret_comes_out
    ],
);

/// TLS and passwords cost processors what a lock of a second or two can miss.
fn secured(driver: &str, args: &str) -> Ran {
    weighed(Weight::PRECISE, &format!("--tls --auth --driver {driver} --time-limit 10s {args}"))
}

fn holds(driver: &str, args: &str) {
    assert_eq!(secured(driver, args).outcome("exclusion"), Outcome::Valid);
}

fn holds_under_kill(driver: &str, args: &str) {
    let ran = secured(driver, &format!("--nemesis kill {args}"));
    assert_eq!(ran.outcome("exclusion"), Outcome::Valid);
    ran.assert_faults_real();
}

fn redis_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock redis-single --redis-persistence always");
}

fn redlock_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock redlock --redis-persistence always");
}

fn sentinel_holds_in_peace(driver: &str) {
    holds(driver, "--lock redis-sentinel");
}

fn etcd_holds_under_kill(driver: &str) {
    holds_under_kill(driver, "--lock etcd");
}

fn sequencers_are_checked_under_kill(driver: &str) {
    let ran = secured(driver, "--lock chubby --guard sequencer --nemesis kill --lock-delay 1s");
    assert_eq!(ran.outcome("lost-updates"), Outcome::Valid);
    ran.assert_faults_real();
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

/// The client is Fencepost's own, whose access a program in between spoils.
fn a_mistake_in_the_access_is_one_sentence(driver: &str) {
    let foreign = "has a certificate of an authority that the client does not trust";
    let password = "does not take the password of the user fencepost";
    for (lock, spoiled, sentence) in [
        ("redis-single", "password", password),
        ("etcd", "password", password),
        ("zookeeper-sequential", "password", password),
        ("postgres-advisory", "password", password),
        ("mariadb-advisory", "password", password),
        ("redis-single", "authority", foreign),
        ("etcd", "authority", foreign),
        ("zookeeper-sequential", "authority", foreign),
        ("postgres-advisory", "authority", foreign),
        ("mariadb-advisory", "authority", foreign),
        ("redlock", "plain", "speaks TLS, and the client does not"),
        ("etcd", "plain", "speaks TLS, and the client does not"),
        ("zookeeper-sequential", "plain", "speaks TLS, and the client does not"),
        ("mariadb-advisory", "plain", "speaks TLS, and the client does not"),
    ] {
        let (folder, client) = (
            format!("{}/tests/locks/spoils-its-access", root()),
            format!("python3 client.py {lock} {spoiled}"),
        );
        let results = tempfile::tempdir().expect("a temporary folder");
        let results_path = results.path().to_str().expect("a path in UTF-8");
        let args = ["test", "--tls", "--auth", "--driver", driver, "--lock", lock, "--client", &client];
        let more = ["--client-files", &folder, "--client-packages", "python3", "--results", results_path];
        let words: Vec<&str> = args.iter().chain(&more).copied().collect();
        let ran = Ran::new(crate::common::output(&words, Weight::PRECISE), results);
        assert_eq!(ran.code, 255, "{lock} {spoiled}: {}", ran.stderr);
        assert!(ran.stderr.contains(sentence), "{lock} {spoiled}: {}", ran.stderr);
    }
}

/// A client tells its password backwards in its log. Forwards it stands nowhere: in no file of the run, no
/// output, and no command line on this machine.
fn no_secret_comes_out(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let (lock, folder) =
        (format!("{}/tests/locks/tells-its-password", root()), results.path().to_str().expect("UTF-8"));
    let args = ["test", "--tls", "--auth", "--driver", driver, "--lock", &lock, "--results", folder];
    let more = ["--nemesis", "kill", "--time-limit", "6s"];
    let done = AtomicBool::new(false);
    let (output, command_lines) = std::thread::scope(|threads| {
        let watcher = threads.spawn(|| command_lines_until(&done));
        let words: Vec<&str> = args.iter().chain(&more).copied().collect();
        let output = Running::start_command(None, fencepost(&words), Weight::LIGHT).finish();
        done.store(true, Ordering::Relaxed);
        (output, watcher.join().expect("no panic"))
    });
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
    assert!(command_lines.iter().any(|line| contains(line, "redis-server")), "servers were watched");
    for line in &command_lines {
        assert!(!contains(line, &password), "{}", String::from_utf8_lossy(line));
    }
}

/// All command lines of this machine until it is done.
pub fn command_lines_until(done: &AtomicBool) -> BTreeSet<Vec<u8>> {
    let mut lines = BTreeSet::new();
    while !done.load(Ordering::Relaxed) {
        let processes = fs::read_dir("/proc").expect("processes").flatten();
        lines.extend(processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok()));
        std::thread::sleep(Duration::from_millis(5));
    }
    lines
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
