//! Runs the program as a user would, on real clusters.

pub mod browser;
pub mod by_hand;
pub mod leftovers;
#[path = "../../needs.rs"]
pub mod needs;
pub mod nodes;
pub mod server;
pub mod turn;
pub mod waiting;

use fencepost_checker::{Outcome, RunVerdict};
use fencepost_history::{Event, Kind, Process, read_history};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use turn::{Turn, Weight};
use waiting::await_until;

/// Makes a test for each driver and function named here. Both drivers give nodes the same abilities, which
/// `tests/cluster` proves; so most functions are tested under `local`, and under `docker` what the driver
/// itself has a part in. The others are tested under `docker` every night (`.ci/nightly`), as are those under
/// `local` whose subject another test covers by day.
macro_rules! under {
    (local: [$($local:ident),* $(,)?], $(local_by_night: [$($local_night:ident),* $(,)?],)? docker: [$($docker:ident),* $(,)?], docker_by_night: [$($night:ident),* $(,)?] $(,)?) => {
        mod local { $(#[test] fn $local() { super::$local("local") })* }
        $(mod local_by_night {
            $(#[test] #[ignore = "runs every night, by .ci/nightly"] fn $local_night() { super::$local_night("local") })*
        })?
        mod docker { $(#[test] fn $docker() { super::$docker("docker") })* }
        mod docker_by_night {
            $(#[test] #[ignore = "runs every night, by .ci/nightly"] fn $night() { super::$night("docker") })*
        }
    };
    // Under both drivers by night, and by day under none.
    (by_night: [$($night:ident),* $(,)?] $(,)?) => {
        mod local_by_night {
            $(#[test] #[ignore = "runs every night, by .ci/nightly"] fn $night() { super::$night("local") })*
        }
        mod docker_by_night {
            $(#[test] #[ignore = "runs every night, by .ci/nightly"] fn $night() { super::$night("docker") })*
        }
    };
}
pub(crate) use under;

/// The project's folder.
pub fn root() -> &'static str {
    env!("CARGO_MANIFEST_DIR")
        .strip_suffix("/tests")
        .expect("this package is the folder `tests` of the project")
}

/// The program with these arguments, in the project's folder. Its servers are those of Debian's packages,
/// whatever the user who tests it prefers.
pub fn fencepost(args: &[&str]) -> Command {
    let mut command = Command::new(crate::PROGRAM);
    command.current_dir(root()).args(args).stdin(Stdio::null());
    command.env_remove("RUST_LOG").env_remove("CARGO").env_remove("FENCEPOST_PROGRAMS");
    command
}

/// The program while it runs on a cluster, with the right to do so. However it ends, it must leave nothing. A
/// test that fails before its end kills it; the next start of any run removes what it left.
pub struct Running {
    child: Option<Child>,
    mark: String,
    weight: Weight,
    /// Given back as it is dropped.
    _turn: Option<Turn>,
}

impl Running {
    /// Starts it when its turn has come. Its output is kept in pipes.
    pub fn start(args: &[&str]) -> Running {
        let weight = Weight::of(args);
        Running::start_command(Some(Turn::take(weight)), fencepost(args), weight)
    }

    /// As [`Running::start`], for a command of [`fencepost`] that was given more; with no turn where the test
    /// itself has taken it.
    pub fn start_command(turn: Option<Turn>, mut command: Command, weight: Weight) -> Running {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        needs::check();
        let mark = format!("{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        command.env(leftovers::MARK, &mark).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = Some(command.spawn().expect("the program starts"));
        Running { child, mark: format!("{}={mark}", leftovers::MARK), weight, _turn: turn }
    }

    /// The process, to be sent signals and read from.
    pub fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it was not finished")
    }

    /// Waits until a part of a node of the run is there: a process in it, or a container.
    pub fn await_a_node(&mut self) {
        let (process, mark, engine) = (self.child().id(), self.mark.clone(), self.weight.uses_engine());
        let own = format!("process /proc/{process}:");
        await_until("a node is being started", || {
            assert!(
                self.child().try_wait().expect("it is ours").is_none(),
                "the run ended before it had a node"
            );
            let made = leftovers::left_by(process, &mark, engine);
            let is_of_node = |line: &String| {
                ["process ", "container "].iter().any(|kind| line.starts_with(kind))
                    && !line.starts_with(&own)
            };
            made.iter().any(is_of_node)
        });
    }

    /// Waits for its end, and gives its output. Fails if it left anything behind.
    pub fn finish(self) -> Output {
        let (output, left) = self.finish_whatever_is_left();
        left.assert_none();
        output
    }

    /// As [`Running::finish`], for one that was killed: what it left is to be asked for later.
    pub fn finish_whatever_is_left(mut self) -> (Output, Left) {
        let child = self.child.take().expect("it was not finished");
        let left = Left { process: child.id(), mark: self.mark.clone(), weight: self.weight };
        let output = child.wait_with_output().expect("it ends");
        // Removing what is left needs no core; the next may begin.
        drop(self);
        (output, left)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What is to be gone after the end of a process.
pub struct Left {
    pub process: u32,
    mark: String,
    weight: Weight,
}

impl Left {
    /// Waits until nothing is left, and fails if something stays.
    pub fn assert_none(&self) {
        leftovers::assert_none(self.process, &self.mark, self.weight);
    }
}

/// Runs the program on a cluster, to its end. Fails if it left anything behind.
pub fn output(args: &[&str]) -> Output {
    Running::start(args).finish()
}

/// Waits until the history of the latest run has what is looked for.
pub fn await_history(results: &Path, what: &str, has_it: impl Fn(&str) -> bool) {
    let history = results.join("latest/history.jsonl");
    await_until(what, || std::fs::read_to_string(&history).is_ok_and(|text| has_it(&text)));
}

/// What a run of the program left in its folder.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// Holds `latest`, the run's folder, if it came that far.
    pub results: tempfile::TempDir,
}

/// Runs `fencepost test` with these arguments, separated by blanks, to its end. Critical sections take 100 ms
/// each where `args` do not say otherwise: many of them fit into a short run.
pub fn test(args: &str) -> Ran {
    match args.contains("--hold ") || args.contains("--workload herd") {
        true => test_drawn(args),
        false => test_drawn(&format!("{args} --hold 100ms")),
    }
}

/// As [`test`], with critical sections whose lengths are drawn.
pub fn test_drawn(args: &str) -> Ran {
    run("test", args)
}

/// Runs `fencepost test` with this plan of faults.
pub fn planned(plan: &str, args: &str) -> Ran {
    let file = written(plan);
    test(&format!("--nemesis-file {} {args}", file.path().display()))
}

/// Plays a scenario, by its name or by its text, once.
pub fn directed(scenario: &str, args: &str) -> Ran {
    match scenario.contains('\n') {
        true => {
            let file = written(scenario);
            run("scenario", &format!("{} {args}", file.path().display()))
        }
        false => run("scenario", &format!("{scenario} {args}")),
    }
}

/// A file with this text, whose name ends in `.toml`.
pub fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("a writable file");
    file
}

fn run(command: &str, args: &str) -> Ran {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut words = vec![command, "--results", results.path().to_str().expect("a path in UTF-8")];
    words.extend(args.split_whitespace());
    let ran = Ran::new(output(&words), results);
    eprintln!("--- fencepost {command} {args}: exit {}\n{}\n{}", ran.code, ran.stdout, ran.stderr);
    ran
}

impl Ran {
    pub fn new(output: Output, results: tempfile::TempDir) -> Ran {
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

    /// What a fault of this name saw on `target` in the first stage that tells of it.
    pub fn observed(&self, stage: &str, fault: &str, target: &str) -> Value {
        let events = self.nemesis_events(stage, Kind::Ok);
        let of_target = |event: &&Event| event.f == fault && event.value["observed"][target] != Value::Null;
        let event = events.iter().find(of_target);
        let event = event.unwrap_or_else(|| panic!("{fault} has no {stage} that tells of {target}"));
        event.value["observed"][target].clone()
    }

    /// The phases that the run went through.
    pub fn phases(&self) -> Vec<String> {
        let phases = self.history().into_iter().filter(|event| event.f == "phase");
        phases.filter_map(|event| Some(event.value.as_str()?.to_owned())).collect()
    }

    /// These faults, in this order, and no others were injected; each was seen to take effect, and was
    /// healed.
    pub fn assert_all_effective(&self, faults: &[&str]) {
        let injected = self.nemesis_events("inject", Kind::Ok);
        let effective = injected.iter().filter(|event| event.value["effective"] == true);
        let effective: Vec<&str> = effective.map(|event| event.f.as_ref()).collect();
        assert_eq!(effective, faults, "injected were {injected:#?}");
        self.assert_faults_real();
    }

    /// What `fencepost analyze` says of the run's folder alone, with no engine in reach, and its exit code.
    pub fn analyzed(&self) -> (Option<i32>, String) {
        let folder = self.folder();
        let mut command = fencepost(&["analyze", folder.to_str().expect("UTF-8")]);
        let output = command.env("DOCKER_HOST", "unix:///nowhere").output().expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
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
