//! What is left behind when a run ends before its time: nothing, or nothing that the next start does not remove.

mod common;

use common::{fencepost, under_both_drivers};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Starts a test of clock jumps and pauses that would last for a minute.
fn start(driver: &str, results: &Path) -> Child {
    let results = results.to_str().expect("a path in UTF-8");
    let args = format!(
        "test --driver {driver} --nemesis clock-jump,pause --time-limit 60s --seed 1 --results {results}"
    );
    fencepost(&args.split_whitespace().collect::<Vec<_>>())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Waits until a fault is in force: the history says so.
fn await_fault(results: &Path) {
    let begun = Instant::now();
    let history = results.join("latest/history.jsonl");
    while !std::fs::read_to_string(&history).is_ok_and(|text| text.contains("\"effective\":true")) {
        assert!(begun.elapsed() < Duration::from_secs(90), "no fault took effect");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the program prints a line that begins so.
fn await_line(child: &mut Child, beginning: &str) {
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let found = stdout.lines().map_while(Result::ok).any(|line| line.starts_with(beginning));
    assert!(found, "the program ended before it printed `{beginning}`");
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a process number")), signal).expect("it runs");
}

/// SIGKILL in the middle of a fault. What is left, the next start removes.
fn a_killed_run_is_cleaned_up_by_the_next(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut child = start(driver, results.path());
    await_fault(results.path());
    signal(&child, Signal::SIGKILL);
    child.wait().expect("it ended");
    let next = common::test(&format!("--driver {driver} --backend redis-single --time-limit 2s"));
    assert_eq!(next.code, 0);
}

/// Ctrl-C in the middle of a fault: an orderly end with exit code 255, or 1 if a violation had been seen.
fn an_interrupted_run_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let child = start(driver, results.path());
    await_fault(results.path());
    signal(&child, Signal::SIGINT);
    let output = child.wait_with_output().expect("it ended");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}: {stderr}", output.status);
    assert!(stderr.contains("interrupted"), "{stderr}");
}

/// Ctrl-C while nodes are being started.
fn an_interrupted_start_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut child = start(driver, results.path());
    await_line(&mut child, "guard");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::SIGINT);
    let output = child.wait_with_output().expect("it ended");
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}", output.status);
}

under_both_drivers!(
    a_killed_run_is_cleaned_up_by_the_next,
    an_interrupted_run_takes_everything_down,
    an_interrupted_start_takes_everything_down,
);

#[test]
fn an_engine_that_is_down_is_said_to_be() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let output =
        fencepost(&["test", "--driver", "docker", "--results", results.path().to_str().expect("UTF-8")])
            .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
            .output()
            .expect("the program starts");
    assert_eq!(output.status.code(), Some(255));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.to_lowercase().contains("docker"), "{stderr}");
    assert_eq!(stderr.trim().lines().count(), 1, "one sentence: {stderr}");
}

#[test]
fn a_results_folder_that_cannot_be_written_is_named() {
    let output = fencepost(&["test", "--driver", "local", "--results", "/proc/nowhere"])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(255));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("/proc/nowhere"), "{stderr}");
    assert_eq!(stderr.trim().lines().count(), 1, "one sentence: {stderr}");
}
