//! Parts of a run that something kills which is no fault of the run: it is said of them, and never of the
//! lock.

use crate::common::{Running, await_history};
use fencepost_checker::{Outcome, RunVerdict};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Output;

/// A process of a run: its number, its parent's, and its command line.
struct Process {
    pid: i32,
    parent: i32,
    command: String,
}

fn processes() -> Vec<Process> {
    let pids = std::fs::read_dir("/proc").expect("a folder").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let look = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.replace('\0', " ");
        Some(Process { pid, parent, command })
    };
    pids.filter_map(look).collect()
}

/// The process of this run whose command line has these words.
fn find(run: i32, words: &str) -> Process {
    let all = processes();
    let is_of_run = |process: &Process| {
        let mut pid = process.pid;
        while pid > 1 && pid != run {
            pid = all.iter().find(|other| other.pid == pid).map_or(0, |other| other.parent);
        }
        pid == run
    };
    let at = all.iter().position(|process| process.command.contains(words) && is_of_run(process));
    all.into_iter()
        .nth(at.unwrap_or_else(|| panic!("the run has no process `{words}`")))
        .expect("it is there")
}

/// Kills a process of a run while its lock is taken and given back: the one that `victim` finds. `run` is the
/// process of the program.
fn killed(args: &str, victim: impl Fn(i32) -> i32) -> (Output, Option<RunVerdict>) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let place = results.path().to_str().expect("a path in UTF-8");
    let args = format!("{args} --driver local --seed 1 --results {place}");
    let mut running = Running::start(&args.split_whitespace().collect::<Vec<_>>());
    await_history(results.path(), "a lock was acquired", |history| {
        history.contains("\"ok\",\"f\":\"acquire\"") || history.matches("\"acquire\"").count() > 4
    });
    let run = i32::try_from(running.child().id()).expect("a process number");
    kill(Pid::from_raw(victim(run)), Signal::SIGKILL).expect("it runs");
    let output = running.finish();
    let verdict = std::fs::read(results.path().join("latest/verdict.json")).ok();
    (output, verdict.map(|json| serde_json::from_slice(&json).expect("a verdict")))
}

/// The one sentence of a run that failed.
fn failure(output: &Output) -> String {
    let [said, complaints] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_eq!(output.status.code(), Some(255), "{said}{complaints}");
    let sentences: Vec<&str> = complaints.lines().filter(|line| line.starts_with("fencepost: ")).collect();
    assert_eq!(sentences.len(), 1, "{complaints}");
    sentences[0].to_owned()
}

const SINGLE: &str = "test --lock redis-single --clients 2 --time-limit 60s";

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_server_that_was_killed_from_outside_is_the_first_sentence_of_the_verdict_by_night() {
    let (output, verdict) = killed("test --lock redis-single --clients 2 --time-limit 8s", |run| {
        find(run, "redis-server 0.0.0.0").pid
    });
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let words = "and by no fault of this run, the server n1 was ended by SIGKILL";
    let verdict = verdict.expect("it was judged");
    let first = said.find(words).expect("the sentence");
    assert!(first < said.find("mutual exclusion").expect("the properties"), "{said}");
    assert_eq!(verdict.of_checker("vacuous").expect("judged").outcome, Outcome::Unknown);
    for checker in ["progress", "fairness", "time-outs"] {
        let reason = verdict.not_judged.iter().find(|not| not.checker == checker).expect("not judged");
        assert!(reason.reason.contains(words), "{}", reason.reason);
    }
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_storage_that_was_killed_fails_the_run_by_night() {
    let (output, _) = killed(SINGLE, |run| find(run, "storage --listen").pid);
    let sentence = failure(&output);
    assert!(sentence.contains("the storage, a part of the test, was ended by SIGKILL"), "{sentence}");
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn an_agent_that_was_killed_fails_the_run_by_night() {
    for program in ["redis-server 0.0.0.0", "storage --listen"] {
        let (output, _) = killed(SINGLE, |run| find(run, program).parent);
        let node = if program.starts_with("redis") { "n1" } else { "storage" };
        let sentence = failure(&output);
        assert!(sentence.contains(&format!("the node {node} is gone: its agent ended")), "{sentence}");
    }
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_scenario_whose_server_was_killed_did_not_happen_by_night() {
    let (output, _) = killed("scenario redlock-clock-jump", |run| find(run, "redis-server 0.0.0.0").pid);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("did not happen"), "{said}");
    assert!(!said.contains("does not agree"), "{said}");
}
