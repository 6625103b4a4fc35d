//! What a run may have left on this machine. Everything that a run makes bears its name, and its name has the
//! number of the controlling process: so each run is looked at by itself, whatever else goes on beside it.

use super::turn::Weight;
use super::waiting::await_nothing;
use std::path::PathBuf;
use std::process::Command;

/// Set for the program under test; processes on the host inherit it. Those inside nodes are found by their
/// mounts.
pub const MARK: &str = "FENCEPOST_TESTED";

/// The process that controls, or controlled, the run of this name: `PROCESS-NUMBER-SEED`, or
/// `PURPOSE-PROCESS-NUMBER`.
pub fn controller(run: &str) -> Option<u32> {
    let first = run.split('-').next().and_then(|first| first.parse().ok());
    first.or_else(|| run.rsplit('-').nth(1)?.parse().ok())
}

/// Fails if anything of the runs of this process is left once the kernel and the engine had time to remove
/// it.
pub fn assert_none(process: u32, mark: &str, weight: Weight) {
    let mut left = await_nothing(|| left_by(process, mark, weight.uses_engine()));
    left.retain(|line| line.strip_prefix("network ").is_none_or(|name| !is_kept_by_the_engine(name)));
    assert!(left.is_empty(), "runs of process {process} left: {left:#?}");
}

/// Folders, mounts, processes, and, where the run may have used them, containers and networks.
pub fn left_by(process: u32, mark: &str, docker: bool) -> Vec<String> {
    let ours = |run: &str| controller(run) == Some(process);
    let mut left: Vec<String> = folders().into_iter().filter(|run| ours(run)).collect();
    left.extend(processes(|run| ours(run), mark));
    if docker {
        left.extend(in_engine(ours));
    }
    left
}

/// The names of runs that have an entry in the register of root's runs, or a private folder.
fn folders() -> Vec<String> {
    let names = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let private = names(fencepost_cluster::place_of_private_folders());
    let private = private.iter().filter_map(|name| run_of_folder(name.strip_prefix("fencepost-")?));
    names(PathBuf::from("/run/fencepost")).into_iter().chain(private.map(str::to_owned)).collect()
}

/// The run of a private folder whose name, after the first word, is this: without the random letters at the
/// end.
fn run_of_folder(name: &str) -> Option<&str> {
    name.rsplit_once('-').map(|(run, _)| run)
}

/// Processes that see a mount of such a run, or inherited the mark. A mount left in this namespace shows as
/// this process.
fn processes(ours: impl Fn(&str) -> bool, mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("it is always there").flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let mounts = std::fs::read_to_string(path.join("mountinfo")).unwrap_or_default();
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        let marked = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
        if marked || mounts.lines().filter_map(run_of_mount).any(&ours) {
            let command = std::fs::read_to_string(path.join("cmdline")).unwrap_or_default();
            found.push(format!("process {}: {}", path.display(), command.replace('\0', " ")));
        }
    }
    found
}

/// The run in whose folder a mount's source or target lies: a line of mountinfo names both.
pub fn run_of_mount(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("/fencepost-")?;
    run_of_folder(rest.split(['/', ' ']).next()?)
}

/// Containers and networks.
fn in_engine(ours: impl Fn(&str) -> bool) -> Vec<String> {
    let list = |kind: &str, args: &[&str]| {
        let output = docker(&[args, &["--filter", "label=fencepost.run"]].concat());
        assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let of_ours = text.lines().filter_map(|line| line.split_once(' ')).filter(|(run, _)| ours(run));
        of_ours.map(|(_, name)| format!("{kind} {name}")).collect::<Vec<_>>()
    };
    let containers = list("container", &["ps", "-a", "--format", "{{.Label \"fencepost.run\"}} {{.Names}}"]);
    let networks = list("network", &["network", "ls", "--format", "{{.Label \"fencepost.run\"}} {{.Name}}"]);
    containers.into_iter().chain(networks).collect()
}

pub(super) fn docker(args: &[&str]) -> std::process::Output {
    Command::new("docker").args(args).output().expect("these tests need the docker command")
}

/// Whether the engine itself will not remove this network, since it has miscounted: it says that something is
/// attached, and that nothing is.
fn is_kept_by_the_engine(network: &str) -> bool {
    let attached = docker(&["network", "inspect", "--format", "{{len .Containers}}", network]);
    let refusal = docker(&["network", "rm", network]);
    let kept = attached.stdout.starts_with(b"0\n")
        && String::from_utf8_lossy(&refusal.stderr).contains("has active endpoints");
    if kept {
        eprintln!("the Docker engine keeps the network {network}, to which nothing is attached");
    }
    kept
}
