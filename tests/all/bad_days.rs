//! What is left behind when a run ends before its time: nothing, or nothing that the next start does not remove.

use crate::common::turn::Weight;
use crate::common::{Running, fencepost, test, under};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

/// Starts a test of clock jumps and pauses that would last for a minute.
fn start(driver: &str, results: &Path) -> Running {
    let results = results.to_str().expect("a path in UTF-8");
    let args = format!(
        "test --driver {driver} --nemesis clock-jump,pause --time-limit 60s --seed 1 --results {results}"
    );
    Running::start(&args.split_whitespace().collect::<Vec<_>>(), Weight::of(&args))
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
fn await_line(running: &mut Running, beginning: &str) {
    let stdout = BufReader::new(running.child().stdout.take().expect("piped"));
    let found = stdout.lines().map_while(Result::ok).any(|line| line.starts_with(beginning));
    assert!(found, "the program ended before it printed `{beginning}`");
}

fn signal(running: &mut Running, signal: Signal) {
    let process = i32::try_from(running.child().id()).expect("a process number");
    kill(Pid::from_raw(process), signal).expect("it runs");
}

/// SIGKILL in the middle of a fault. What is left, the next start removes.
fn a_killed_run_is_cleaned_up_by_the_next(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start(driver, results.path());
    await_fault(results.path());
    signal(&mut running, Signal::SIGKILL);
    let (_, left) = running.finish_whatever_is_left();
    let next = test(&format!("--driver {driver} --lock redis-single --acquisitions 10"));
    assert_eq!(next.code, 0);
    left.assert_none();
}

/// A terminal that is closed in the middle of a fault, and all that a user may send then: an orderly end with exit code 255, or
/// 1 if a violation had been seen.
fn an_interrupted_run_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start(driver, results.path());
    await_fault(results.path());
    for each in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGINT] {
        signal(&mut running, each);
    }
    let output = running.finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}: {stderr}", output.status);
    assert!(stderr.contains("interrupted"), "{stderr}");
}

/// Ctrl-C while nodes are being started.
fn an_interrupted_start_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start(driver, results.path());
    await_line(&mut running, "guard");
    std::thread::sleep(Duration::from_millis(300));
    signal(&mut running, Signal::SIGINT);
    let output = running.finish();
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}", output.status);
}

under!(
    local: [a_killed_run_is_cleaned_up_by_the_next, an_interrupted_run_takes_everything_down, an_interrupted_start_takes_everything_down],
    docker: [a_killed_run_is_cleaned_up_by_the_next, an_interrupted_run_takes_everything_down, an_interrupted_start_takes_everything_down],
    docker_by_night: [],
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
