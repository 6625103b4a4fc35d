//! Runs the program as a user would, on real clusters.

#![allow(dead_code, unused_macros, unused_imports, reason = "each test file uses its own part of this")]

use fencepost_checker::{Outcome, RunVerdict};
use fencepost_history::{Event, Kind, Process, read_history};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// Clusters are started one at a time, so that a test can tell what its own left behind, and two cores are enough.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test alone, and finds the machine afterwards as it was before.
pub fn on_clean_ground(test: impl FnOnce()) {
    let _turn = one_at_a_time();
    clear_up();
    let before = Surroundings::look();
    test();
    before.assert_as_before();
}

/// Removes what runs that ended before these tests could not: the first run would do so, and it would be missed then.
fn clear_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        for name in ["docker", "local"] {
            let cleared =
                runtime.block_on(async { fencepost_cluster::select(name).await?.clean_up_leftovers().await });
            match cleared {
                Ok(removed) => removed.iter().for_each(|what| eprintln!("{what}")),
                // The tests that need this driver say it in their own way.
                Err(error) => eprintln!("cannot look for what earlier runs left: {error}"),
            }
        }
    });
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

/// Runs `fencepost test` with this plan of faults.
pub fn planned(plan: &str, args: &str) -> Ran {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), plan).expect("a writable file");
    test(&format!("--nemesis-file {} {args}", file.path().display()))
}

/// Runs `fencepost test` with one seed after the other, five at most, until what can only be said to happen sooner or
/// later has happened: which moment a fault meets is not in the plan. What must always be so is asserted by `always`.
pub fn test_until(args: &str, always: impl Fn(&Ran), happened: impl Fn(&Ran) -> bool) -> Ran {
    until_it_happens(|seed| test(&format!("{args} --seed {seed}")), always, happened)
}

/// As [`test_until`], for runs of any kind.
pub fn until_it_happens(
    run: impl Fn(u64) -> Ran,
    always: impl Fn(&Ran),
    happened: impl Fn(&Ran) -> bool,
) -> Ran {
    let tried = (1..=5).map(|seed| {
        let ran = run(seed);
        always(&ran);
        ran
    });
    tried.into_iter().find(happened).expect("it happened in none of five runs")
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
        self.nemesis_events(stage, kind).into_iter().map(|event| (*event.value).clone()).collect()
    }

    /// The nemesis's events of this stage and kind.
    pub fn nemesis_events(&self, stage: &str, kind: Kind) -> Vec<Event> {
        let mut events = self.history();
        events.retain(|event| {
            event.process == Process::Nemesis && event.kind == kind && event.value["stage"] == stage
        });
        events
    }

    /// The phases that the run went through.
    pub fn phases(&self) -> Vec<String> {
        let phases = self.history().into_iter().filter(|event| event.f == "phase");
        phases.filter_map(|event| Some(event.value.as_str()?.to_owned())).collect()
    }

    /// Faults were injected, some were seen to take effect, and every healing that began ended well.
    pub fn assert_faults_real(&self) {
        let injected = self.stages("inject", Kind::Invoke).len();
        assert!(injected > 0, "no fault was injected");
        let effective =
            self.stages("inject", Kind::Ok).iter().filter(|value| value["effective"] == true).count();
        assert!(effective > 0, "none of {injected} faults was seen to take effect");
        let begun = self.stages("heal", Kind::Invoke).len();
        assert_eq!(self.stages("heal", Kind::Ok).len(), begun, "not every fault was healed");
    }
}

/// What on this machine a run must not change: lines of several commands, each with its subject.
#[derive(Debug, PartialEq, Eq)]
struct Surroundings(Vec<String>);

/// What is looked at, and how. Counters and times are left out, and so are the empty files in which the engine keeps
/// network namespaces for a while after it is done with them.
const LOOKS: &[(&str, &str)] = &[
    ("container", "docker ps -a --format '{{.Names}}'"),
    ("network", "docker network ls --format '{{.Name}} {{.ID}}'"),
    ("namespace", "ip netns list"),
    ("link", "ip -o link show | cut -d: -f2"),
    ("packet filter", "iptables-save | grep -v '^#' | sed 's/\\[.*\\]//'"),
    ("mount", "cut -d' ' -f1-3 /proc/mounts | grep -v /run/docker/netns"),
    (
        "process",
        "ps -eo args | grep -E 'redis-server|etcd --|QuorumPeerMain|postgres -D|fencepost (agent|sandbox|client|storage)' | grep -v grep",
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
                let mut new: Vec<_> = now.iter().filter(|line| !self.0.contains(line)).collect();
                let mut gone: Vec<_> = self.0.iter().filter(|line| !now.contains(line)).collect();
                for (name, id) in new.iter().filter_map(|line| network(line)).collect::<Vec<_>>() {
                    if is_kept_by_the_engine(name) {
                        eprintln!("the Docker engine keeps the network {name}, to which nothing is attached");
                        new.retain(|line| !line.contains(id));
                    }
                }
                // One that it kept after an earlier run, and has let go of now.
                for (_, id) in gone.iter().filter_map(|line| network(line)).collect::<Vec<_>>() {
                    gone.retain(|line| !line.contains(id));
                }
                if new.is_empty() && gone.is_empty() {
                    return;
                }
                panic!("the machine is not as it was before; new: {new:#?}, gone: {gone:#?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Name and number of the network of a run; its link has the number in its name, and so have the rules about it.
fn network(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("network: ")?.split_once(' ').filter(|(name, _)| name.starts_with("fencepost-"))
}

/// Whether the engine itself will not remove this network, since it has miscounted: it says that something is attached,
/// and that nothing is.
fn is_kept_by_the_engine(network: &str) -> bool {
    let docker = |args: &[&str]| Command::new("docker").args(args).output().expect("the docker command");
    let attached = docker(&["network", "inspect", "--format", "{{len .Containers}}", network]);
    let refusal = docker(&["network", "rm", network]);
    attached.stdout.starts_with(b"0\n")
        && String::from_utf8_lossy(&refusal.stderr).contains("has active endpoints")
}
