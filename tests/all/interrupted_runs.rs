//! What is left behind when a run ends before its time: nothing, or nothing that the next start does not
//! remove.

use crate::common::turn::{Turn, Weight};
use crate::common::{Running, await_history, fencepost, test, under};
use crate::own_register::OwnRegister;
use fencepost_checker::RunVerdict;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// Starts a test of clock jumps and pauses that would last for a minute.
fn start(driver: &str, results: &Path) -> Running {
    start_for("60s", driver, results)
}

fn start_for(time_limit: &str, driver: &str, results: &Path) -> Running {
    let results = results.to_str().expect("a path in UTF-8");
    let args = format!(
        "test --driver {driver} --nemesis clock-jump,pause --time-limit {time_limit} --seed 1 --results {results}"
    );
    Running::start(&args.split_whitespace().collect::<Vec<_>>())
}

/// Waits until a fault is in force: the history says so.
pub fn await_fault(results: &Path) {
    await_history(results, "a fault takes effect", |history| history.contains("\"effective\":true"));
}

pub fn signal(running: &mut Running, signal: Signal) {
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

/// A terminal that is closed in the middle of a fault, and all that a user may send then: an orderly end with
/// exit code 255, or 1 if a violation had been seen.
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

/// A scenario that was begun is not one that was played.
#[test]
fn an_interrupted_scenario_does_not_count_as_played() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let place = results.path().to_str().expect("a path in UTF-8");
    let args = ["scenario", "redis-clock-jump", "--driver", "local", "--results", place];
    let mut running = Running::start(&args);
    await_history(results.path(), "the run has begun", |history| !history.is_empty());
    signal(&mut running, Signal::SIGINT);
    let output = running.finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(255), "{stderr}");
    assert!(stderr.contains("interrupted; 0 of 1 scenario was played to the end"), "{stderr}");
}

/// A terminal that is gone: its signal comes, and nothing can be printed any more.
fn a_run_without_its_terminal_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start_for("600s", driver, results.path());
    await_fault(results.path());
    drop((running.child().stdout.take(), running.child().stderr.take()));
    signal(&mut running, Signal::SIGHUP);
    let output = running.finish();
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}", output.status);
    let history = std::fs::read_to_string(results.path().join("latest/history.jsonl")).expect("a history");
    let last: fencepost_history::Event =
        serde_json::from_str(history.lines().last().expect("events")).expect("an event");
    assert!(last.time < 600_000_000_000, "it went on to its own end");
}

/// No file may grow any further in the middle of the run. What its history holds by then is judged.
fn a_violation_stands_where_the_history_may_not_grow(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let place = results.path().to_str().expect("a path in UTF-8");
    let args =
        format!("test --driver {driver} --lock canary-nolock --time-limit 60s --hold 20ms --results {place}");
    let mut running = Running::start(&args.split_whitespace().collect::<Vec<_>>());
    await_history(results.path(), "enough is acquired", |history| {
        history.matches("\"acquire\"").count() >= 60
    });
    let process = running.child().id().to_string();
    let limited = Command::new("prlimit").args(["--fsize=1:1", "--pid", &process]).status();
    assert!(limited.expect("prlimit").success());
    let output = running.finish();
    let [said, complaints] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_eq!(output.status.code(), Some(1), "{said}{complaints}");
    assert!(said.contains("The lock did not hold"), "{said}");
    assert!(complaints.contains("the run ended early: cannot write the history"), "{complaints}");
}

/// SIGKILL as soon as the verdict is printed: the files of the run say the same.
#[test]
fn a_verdict_that_was_printed_is_kept_whatever_comes() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let place = results.path().to_str().expect("a path in UTF-8");
    let args = format!("test --driver local --lock canary-nolock --time-limit 3s --results {place}");
    let mut running = Running::start(&args.split_whitespace().collect::<Vec<_>>());
    let stdout = BufReader::new(running.child().stdout.take().expect("piped"));
    let printed = stdout.lines().map_while(Result::ok).find(|line| line.contains("mutual exclusion"));
    running.child().kill().expect("it runs, or has ended");
    let (_, left) = running.finish_whatever_is_left();
    let printed = printed.expect("the run was judged");
    let verdict = std::fs::read(results.path().join("latest/verdict.json")).expect("it is kept");
    let verdict: RunVerdict = serde_json::from_slice(&verdict).expect("a whole file");
    let kept = verdict.of_checker("exclusion").expect("judged").outcome;
    assert!(printed.contains(&kept.to_string()), "{kept}: {printed}");
    assert!(results.path().join("latest/report.html").is_file());
    // An engine may keep networks that it has miscounted; this run had none.
    let clean = fencepost(&["clean"]).env("DOCKER_HOST", "unix:///nowhere").output();
    assert!(clean.expect("the program starts").status.success());
    left.assert_none();
}

/// Ctrl-C while nodes are being started: as soon as there is a part of one.
fn an_interrupted_start_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start(driver, results.path());
    running.await_a_node();
    signal(&mut running, Signal::SIGINT);
    let output = running.finish();
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}", output.status);
}

/// SIGKILL while nodes are being started, and in the middle of a fault: `fencepost clean` names and removes
/// what is left of both, and a run that goes on stays as it is. These runs have a register of their own, so
/// that no run of another test removes it first.
fn what_killed_runs_left_is_removed_at_once(driver: &str) {
    let register = OwnRegister::make();
    let of = |driver: &str, rest: &str, results: &Path| {
        let place = results.to_str().expect("a path in UTF-8").to_owned();
        let args = format!("test --driver {driver} --time-limit 600s --results {place} {rest}");
        args.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let _turn = Turn::take(Weight::of_three(driver));
    let start = |args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Running::start_command(None, register.command(&args), Weight::of(&args))
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let mut living = start(&of("local", "--lock redis-single --nemesis pause", &at("living")));
    await_fault(&at("living"));
    // Both are started before one is killed: a start removes what killed runs left, too.
    let late = start(&of(driver, "--nemesis clock-jump", &at("late")));
    await_fault(&at("late"));
    let mut early = start(&of(driver, "--nemesis clock-jump", &at("early")));
    early.await_a_node();
    let left = [early, late].map(|mut running| {
        signal(&mut running, Signal::SIGKILL);
        running.finish_whatever_is_left().1
    });
    let cleaned = register.command(&["clean"]).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&cleaned.stdout);
    let complaints = String::from_utf8_lossy(&cleaned.stderr);
    for killed in &left {
        let named =
            |line: &str| line.contains("of killed runs: ") && line.contains(&format!("{}-", killed.process));
        assert!(printed.lines().any(named), "run {}: {printed}{complaints}", killed.process);
        killed.assert_none();
    }
    let living_process = living.child().id();
    assert!(!printed.contains(&format!("{living_process}-")), "{printed}");
    assert_eq!(register.processes(), [living_process], "the others are not registered any more");
    assert!(living.child().try_wait().expect("it is ours").is_none(), "the run that goes on has ended");
    signal(&mut living, Signal::SIGINT);
    let output = living.finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(255 | 1)) && stderr.contains("interrupted"), "{stderr}");
    let again = register.command(&["clean"]).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&again.stdout);
    assert!(!left.iter().any(|killed| printed.contains(&format!("{}-", killed.process))), "{printed}");
}

/// A run of the driver `local` removes what one of the driver `docker` left.
#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_killed_run_of_docker_is_cleaned_up_by_a_local_one_by_night() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start("docker", results.path());
    await_fault(results.path());
    signal(&mut running, Signal::SIGKILL);
    let (_, left) = running.finish_whatever_is_left();
    let next = test("--driver local --lock redis-single --acquisitions 10");
    assert_eq!(next.code, 0);
    left.assert_none();
}

/// An engine that accepts connections and never answers makes no local run slow, and no search of `clean`
/// endless.
#[test]
fn an_engine_that_hangs_keeps_no_local_run_from_going_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("docker.sock");
    let _engine = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let host = format!("unix://{}", socket.display());
    let results = folder.path().join("results");
    let args =
        format!("test --driver local --lock redis-single --acquisitions 10 --results {}", results.display());
    let words: Vec<&str> = args.split_whitespace().collect();
    let _turn = Turn::take(Weight::of(&words));
    let run = fencepost(&words).env("DOCKER_HOST", &host).output().expect("the program starts");
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let cleaned = fencepost(&["clean"]).env("DOCKER_HOST", &host).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&cleaned.stdout);
    assert_eq!(cleaned.status.code(), Some(0), "{}", String::from_utf8_lossy(&cleaned.stderr));
    assert!(printed.contains("not searched: no Docker engine answers"), "{printed}");
}

under!(
    local: [a_killed_run_is_cleaned_up_by_the_next, an_interrupted_run_takes_everything_down, a_run_without_its_terminal_takes_everything_down, a_violation_stands_where_the_history_may_not_grow, an_interrupted_start_takes_everything_down, what_killed_runs_left_is_removed_at_once],
    docker: [what_killed_runs_left_is_removed_at_once],
    docker_by_night: [a_killed_run_is_cleaned_up_by_the_next, an_interrupted_run_takes_everything_down, an_interrupted_start_takes_everything_down, a_run_without_its_terminal_takes_everything_down, a_violation_stands_where_the_history_may_not_grow],
);
