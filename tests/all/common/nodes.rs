//! The nodes of a run as this machine sees them, without Fencepost: their processes in /proc, and programs
//! that are started in them by `nsenter`.

use super::Running;
use super::leftovers::{controller, docker};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_link, read_to_string};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// By their names.
pub type Nodes = BTreeMap<String, Node>;

/// A node, known by its agent: a process that lives as long as the node does.
#[derive(Debug)]
pub struct Node {
    agent: u32,
}

/// All nodes of a run that has begun.
pub fn of(running: &mut Running) -> Nodes {
    let controller = running.child().id();
    let agents = match running.weight.uses_engine() {
        true => agents_in_containers(controller),
        false => agents_below(controller),
    };
    agents.into_iter().map(|(name, agent)| (name, Node { agent })).collect()
}

/// Under the driver `local`: of the processes that descend from the controller, the first one on each host
/// that is not this machine, by the namespace of its name.
fn agents_below(controller: u32) -> Vec<(String, u32)> {
    let parents: Vec<(u32, u32)> =
        processes().into_iter().filter_map(|process| Some((process, parent(process)?))).collect();
    let mut below = vec![controller];
    let mut at = 0;
    while let Some(process) = below.get(at).copied() {
        below.extend(parents.iter().filter(|(_, parent)| *parent == process).map(|(child, _)| *child));
        at += 1;
    }
    let mut hosts: BTreeSet<PathBuf> = namespace(std::process::id(), "uts").into_iter().collect();
    below.retain(|process| namespace(*process, "uts").is_some_and(|host| hosts.insert(host)));
    below.into_iter().map(|agent| (host_name(agent), agent)).collect()
}

/// Under the driver `docker`: the first process of each container of the run.
fn agents_in_containers(of_controller: u32) -> Vec<(String, u32)> {
    let text = |args: &[&str]| {
        let output = docker(args);
        assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let format = "{{.Label \"fencepost.run\"}} {{.ID}}";
    let listed = text(&["ps", "--filter", "label=fencepost.run", "--format", format]);
    let all = listed.lines().filter_map(|line| line.split_once(' '));
    let of_run = all.filter(|(run, _)| controller(run) == Some(of_controller)).map(|(_, id)| id);
    let ids: Vec<&str> = of_run.collect();
    let inspected =
        text(&[&["inspect", "--format", "{{.Config.Hostname}} {{.State.Pid}}"], &ids[..]].concat());
    let agents = inspected.lines().filter_map(|line| line.split_once(' '));
    agents.map(|(name, agent)| (name.to_owned(), agent.parse().expect("a process number"))).collect()
}

fn host_name(process: u32) -> String {
    let mut name = Command::new("nsenter");
    printed(name.args(["--target", &process.to_string(), "--uts", "uname", "-n"])).trim().to_owned()
}

impl Node {
    /// A program of this node, in it.
    pub fn command(&self, argv: &[&str]) -> Command {
        let mut command = self.enter();
        command.args(["--uts", "--ipc", "--net", "--pid"]).args(argv);
        command
    }

    /// A program of this node, in the network of another.
    pub fn command_in_network(&self, other: &Node, argv: &[&str]) -> Command {
        let mut command = self.enter();
        command.arg(format!("--net=/proc/{}/ns/net", other.agent)).args(argv);
        command
    }

    /// The command that enters a node, with its files.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.agent.to_string(), "--mount"]);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// What a program of this node prints in it, whether it succeeds or not.
    pub fn run(&self, argv: &[&str]) -> String {
        printed(&mut self.command(argv))
    }

    /// Where this machine finds a file of the node.
    pub fn path(&self, path: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.agent)).join(path.trim_start_matches('/'))
    }

    /// Its address in the run's network.
    pub fn address(&self) -> String {
        let text = self.run(&["ip", "-brief", "-4", "address", "show", "eth0"]);
        let address = text.split_whitespace().nth(2).and_then(|address| address.split('/').next());
        address.unwrap_or_else(|| panic!("no address in {text:?}")).to_owned()
    }

    /// The node's processes of this name: the number of each, and the letter of its state in /proc.
    pub fn states(&self, program: &str) -> Vec<(u32, char)> {
        let node = namespace(self.agent, "pid");
        let is_it = |process: &u32| {
            let name = read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            name.trim() == program && namespace(*process, "pid") == node
        };
        let found = processes().into_iter().filter(is_it);
        found.filter_map(|process| Some((process, state(process)?))).collect()
    }
}

/// What a command prints on both streams.
pub fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the command nsenter");
    [output.stdout, output.stderr].iter().map(|text| String::from_utf8_lossy(text)).collect()
}

/// The letter of a process's state in /proc: `T` while it is stopped. None where there is no such process.
pub fn state(process: u32) -> Option<char> {
    fields(process)?.chars().next()
}

fn parent(process: u32) -> Option<u32> {
    fields(process)?.split(' ').nth(1)?.parse().ok()
}

/// The fields of /proc/PID/stat behind the name, which may have blanks: state, parent, and so on.
fn fields(process: u32) -> Option<String> {
    let stat = read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

fn processes() -> Vec<u32> {
    let entries = read_dir("/proc").expect("it is always there").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// None where the process is gone.
fn namespace(process: u32, kind: &str) -> Option<PathBuf> {
    read_link(format!("/proc/{process}/ns/{kind}")).ok()
}
