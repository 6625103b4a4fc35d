//! A Docker engine on another machine, by `tools/remote-engine`: its network, its processes and its files are
//! its own.

use crate::common::turn::{Turn, Weight};
use crate::common::waiting::await_until;
use crate::common::{fencepost, root};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Ends with its standard input.
struct RemoteEngine {
    process: Child,
    tcp: String,
    ssh: String,
    folder: tempfile::TempDir,
}

impl RemoteEngine {
    fn start() -> RemoteEngine {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(format!("{}/tools/remote-engine", root()));
        command.arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the engine's script starts");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let mut address = |what: &str| match lines.next() {
            Some(Ok(address)) => address,
            _ => panic!("no engine answers over {what}: this test needs dockerd, sshd, unshare, ip and root"),
        };
        let (tcp, ssh) = (address("tcp"), address("ssh"));
        RemoteEngine { process, tcp, ssh, folder }
    }

    /// Makes the command use the engine there.
    fn reached_by<'a>(&self, address: &str, command: &'a mut Command) -> &'a mut Command {
        let path = std::env::var("PATH").expect("a PATH");
        let path = format!("{}:{path}", self.folder.path().display());
        command.env("DOCKER_HOST", address).env("PATH", path)
    }

    /// Containers and networks of Fencepost.
    fn contents(&self) -> String {
        let list = |args: &[&str]| {
            let mut command = Command::new("docker");
            command.args(args).args(["--quiet", "--filter", "label=fencepost.run"]);
            let output = command.env("DOCKER_HOST", &self.tcp).output().expect("the docker command");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        list(&["ps", "--all"]) + &list(&["network", "ls"])
    }
}

impl Drop for RemoteEngine {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn arguments(results: &Path, rest: &str) -> Vec<String> {
    let words = "test --driver docker --hold 20ms --ttl 5s";
    let words = words.split(' ').chain(rest.split(' ')).map(str::to_owned);
    words.chain(["--results".to_owned(), results.display().to_string()]).collect()
}

/// One test for all of it: the engine has no images at first, which takes most of the time.
#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn an_engine_elsewhere_is_as_good_by_night() {
    let _turn = Turn::take(Weight::alone());
    let engine = RemoteEngine::start();
    faults_are_real_over(&engine, &engine.tcp);
    faults_are_real_over(&engine, &engine.ssh);
    machines_share_it(&engine);
    a_killed_controller_leaves_nothing(&engine);
}

fn faults_are_real_over(engine: &RemoteEngine, address: &str) {
    for nemesis in ["partition", "clock-jump"] {
        let results = tempfile::tempdir().expect("a temporary folder");
        let rest = format!("--lock redlock --nemesis {nemesis} --time-limit 8s");
        let args = arguments(results.path(), &rest);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = engine.reached_by(address, &mut fencepost(&args)).output().expect("the program starts");
        // Clock jumps break this lock; what they may not be is without effect (2) or a failure (255).
        assert!(matches!(output.status.code(), Some(0 | 1)), "{address}, {nemesis}: {}", text(&output));
        assert_eq!(engine.contents(), "", "{address}, {nemesis}");
    }
}

/// Two machines whose runs bear the same name use the engine at once: the same process numbers, the same
/// seed.
fn machines_share_it(engine: &RemoteEngine) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let start = |machine: &str| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--mount", "sh", "-c"]);
        command.arg("hostname $0 && mount -t tmpfs tmpfs /run && exec \"$@\"").arg(machine);
        command.arg(crate::PROGRAM);
        command
            .args(arguments(&results.path().join(machine), "--lock redis-single --seed 7 --acquisitions 20"));
        engine.reached_by(&engine.tcp, command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        command.spawn().expect("unshare starts")
    };
    let machines = ["one", "another"].map(start);
    for machine in machines {
        let output = machine.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    }
    assert_eq!(engine.contents(), "");
}

fn a_killed_controller_leaves_nothing(engine: &RemoteEngine) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let args = arguments(results.path(), "--lock redis-single --time-limit 60s");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = fencepost(&args);
    let mut controller = engine.reached_by(&engine.ssh, &mut command).spawn().expect("the program starts");
    // In the middle of its start it would leave containers that were made and not started; the next run
    // removes those.
    let history = results.path().join("latest/history.jsonl");
    await_until("the run goes on", || std::fs::metadata(&history).is_ok_and(|file| file.len() > 0));
    controller.kill().expect("it runs");
    controller.wait().expect("it ends");
    let containers = || engine.contents().lines().filter(|line| !line.is_empty()).count() <= 1;
    await_until("of a killed run there is at most the network", containers);
    let cleaned =
        engine.reached_by(&engine.ssh, &mut fencepost(&["clean"])).output().expect("the program starts");
    assert_eq!(cleaned.status.code(), Some(0), "{}", text(&cleaned));
    assert_eq!(engine.contents(), "");
}
