//! Runs the program as a user would, on real clusters.

#![allow(dead_code, unused_macros, unused_imports, reason = "each test file uses its own part of this")]

use fencepost_checker::{Outcome, RunVerdict};
use fencepost_history::{Event, Kind, Process, read_history};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Clusters are started one at a time, so that a test can tell what its own left behind, and two cores are enough.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test alone, and finds the machine afterwards as it was before.
pub fn on_clean_ground(test: impl FnOnce()) {
    let _turn = one_at_a_time();
    let before = Surroundings::look();
    test();
    before.assert_as_before();
}

/// Makes one test for each driver out of a function that takes its name; each on clean ground.
macro_rules! under_both_drivers {
    ($($name:ident),* $(,)?) => {
        mod docker { $(#[test] fn $name() { crate::common::on_clean_ground(|| super::$name("docker")) })* }
        mod local { $(#[test] fn $name() { crate::common::on_clean_ground(|| super::$name("local")) })* }
    };
}
pub(crate) use under_both_drivers;

/// The program with these arguments.
pub fn fencepost(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(args).stdin(Stdio::null()).env_remove("RUST_LOG").env_remove("CARGO");
    command
}

/// What a run of the program left.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// Holds `latest`, the run's folder, if it came that far.
    pub results: tempfile::TempDir,
}

/// Runs `fencepost test` with these arguments, separated by blanks, to its end.
pub fn test(args: &str) -> Ran {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut words = vec!["test", "--results", results.path().to_str().expect("a path in UTF-8")];
    words.extend(args.split_whitespace());
    let output = fencepost(&words).output().expect("the program starts");
    let ran = Ran::new(output, results);
    eprintln!("--- fencepost test {args}: exit {}\n{}\n{}", ran.code, ran.stdout, ran.stderr);
    ran
}

impl Ran {
    fn new(output: Output, results: tempfile::TempDir) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("output in UTF-8");
        Ran {
            code: output.status.code().expect("not ended by a signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            results,
        }
    }

    /// The run's folder.
    pub fn folder(&self) -> PathBuf {
        self.results.path().join("latest").canonicalize().expect("the run left a folder")
    }

    pub fn history(&self) -> Vec<Event> {
        read_history(&self.folder().join("history.jsonl")).expect("a readable history")
    }

    pub fn verdict(&self) -> RunVerdict {
        let text = std::fs::read_to_string(self.folder().join("verdict.json")).expect("a verdict");
        serde_json::from_str(&text).expect("a readable verdict")
    }

    /// The outcome of one checker.
    pub fn outcome(&self, checker: &str) -> Outcome {
        let verdict = self.verdict();
        verdict.of_checker(checker).unwrap_or_else(|| panic!("{checker} said nothing")).outcome
    }

    /// How many findings of that class a checker has.
    pub fn findings(&self, checker: &str, class: &str) -> usize {
        let verdict = self.verdict();
        let findings =
            verdict.of_checker(checker).map(|verdict| verdict.findings.clone()).unwrap_or_default();
        findings.iter().filter(|finding| finding.class == class).count()
    }

    /// Values of the nemesis's events of this stage and kind.
    pub fn stages(&self, stage: &str, kind: Kind) -> Vec<Value> {
        let of_nemesis = |event: &Event| event.process == Process::Nemesis && event.kind == kind;
        let mut values: Vec<Value> =
            self.history().into_iter().filter(of_nemesis).map(|event| event.value).collect();
        values.retain(|value| value["stage"] == stage);
        values
    }

    /// Every fault that was injected was seen to take effect, and was healed.
    pub fn assert_faults_real(&self) {
        let injected = self.stages("inject", Kind::Invoke).len();
        assert!(injected > 0, "no fault was injected");
        let effective =
            self.stages("inject", Kind::Ok).iter().filter(|value| value["effective"] == true).count();
        assert!(effective > 0, "none of {injected} faults was seen to take effect");
        assert_eq!(self.stages("heal", Kind::Ok).len(), injected, "not every fault was healed");
    }
}

/// What on this machine a run must not change: lines of several commands, each with its subject.
#[derive(Debug, PartialEq, Eq)]
struct Surroundings(Vec<String>);

/// What is looked at, and how. Counters and times are left out, and so are the empty files in which the engine keeps
/// network namespaces for a while after it is done with them.
const LOOKS: &[(&str, &str)] = &[
    ("container", "docker ps -a --format '{{.Names}}'"),
    ("network", "docker network ls --format '{{.Name}}'"),
    ("namespace", "ip netns list"),
    ("link", "ip -o link show | cut -d: -f2"),
    ("packet filter", "iptables-save | grep -v '^#' | sed 's/\\[.*\\]//'"),
    ("mount", "cut -d' ' -f1-3 /proc/mounts | grep -v /run/docker/netns"),
    (
        "process",
        "ps -eo args | grep -E 'redis-server|etcd --|fencepost (agent|sandbox|client|storage)' | grep -v grep",
    ),
];

impl Surroundings {
    fn look() -> Surroundings {
        let lines = LOOKS.iter().flat_map(|(subject, command)| {
            let output = Command::new("sh").args(["-c", command]).output().expect("a shell");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().map(|line| format!("{subject}: {line}")).collect::<Vec<_>>()
        });
        Surroundings(lines.collect())
    }

    /// Looks until everything is as it was: the kernel and the engine take a moment to end what was killed.
    fn assert_as_before(&self) {
        let begun = Instant::now();
        loop {
            let Surroundings(now) = Surroundings::look();
            if now == self.0 {
                return;
            }
            if begun.elapsed() > Duration::from_secs(15) {
                let new: Vec<_> = now.iter().filter(|line| !self.0.contains(line)).collect();
                let gone: Vec<_> = self.0.iter().filter(|line| !now.contains(line)).collect();
                panic!("the machine is not as it was before; new: {new:#?}, gone: {gone:#?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
