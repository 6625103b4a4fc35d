//! Machines that lack something: one sentence names it, and the exit code is that of a failure of the
//! environment.

use crate::common::turn::{Turn, Weight};
use std::process::{Command, Output};

/// What the program says on standard error in a mount namespace in which this was done before.
fn without(preparation: &str, args: &str) -> String {
    let results = tempfile::tempdir().expect("a temporary folder");
    let script = format!("{preparation} && exec {} {args}", crate::PROGRAM);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(results.path()).env_remove("RUST_BACKTRACE");
    let output = in_turn(&mut command);
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(255), "{args}: {complaints}");
    complaints
}

/// Runs it when there is room for a run with as many nodes as any here.
fn in_turn(command: &mut Command) -> Output {
    let _turn = Turn::take(Weight::of(&["test", "--driver", "local"]));
    command.output().expect("it starts")
}

#[test]
fn devices_that_a_machine_lacks_are_named() {
    let test = "test --driver local --lock redis-single --workload lock --time-limit 1s";
    for args in [format!("{test} --seed 1"), test.to_owned()] {
        let complaints = without("mount -t tmpfs none /dev", &args);
        assert_eq!(complaints.lines().count(), 1, "{complaints}");
        // Where a seed is drawn, some systems lack random numbers first.
        let is_named = complaints.contains("/dev/null") || complaints.contains("no random numbers");
        assert!(is_named && complaints.contains("/dev/urandom"), "{complaints}");
        assert!(!complaints.contains("defect"), "{complaints}");
    }
    // Something wrote a file in the place of the device.
    let file = without("touch null && mount --bind null /dev/null", &format!("{test} --seed 1"));
    assert!(file.contains("this machine has no /dev/null, which nodes need"), "{file}");
}

#[test]
fn the_driver_that_auto_leaves_out_is_named_with_the_reason() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let args = [
        "test",
        "--lock",
        "canary-nolock",
        "--workload",
        "lock",
        "--acquisitions",
        "100",
        "--config",
        "none",
    ];
    let mut command = Command::new(crate::PROGRAM);
    command.args(args).args(["--time-limit", "300s"]);
    command.current_dir(results.path()).env("DOCKER_HOST", "unix:///nowhere");
    let output = in_turn(&mut command);
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = complaints.lines().filter(|line| line.contains("not docker")).collect();
    let why = "driver local, and not docker: no Docker engine answers at unix:///nowhere, which DOCKER_HOST names: ";
    assert!(lines.len() == 1 && lines[0].starts_with(why), "{complaints}");
    assert_eq!(output.status.code(), Some(1), "a lock that locks nothing is a violation: {complaints}");
}

#[test]
fn a_limit_of_open_files_is_named_with_what_to_do() {
    let few = "test --driver local --lock redlock --workload lock --acquisitions 10 --time-limit 300s --config none";
    // Of this run alone, and well below what five servers and their clients need: near it, the order in which
    // nodes start decides.
    let complaints = without("ulimit -n 40", few);
    assert!(
        complaints.contains("Too many open files") && complaints.contains("`ulimit -n 1024`"),
        "{complaints}"
    );
    // A soft limit alone is raised.
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -Sn 40 && exec {} {few}", crate::PROGRAM)])
        .current_dir(results.path());
    let output = in_turn(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
