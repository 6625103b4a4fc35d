//! Inside a node: what it can do, found by trying it.

use crate::driver::Capability;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};

/// What was tried inside a node, and how it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) capability: Capability,
    /// Why not, if not.
    pub(crate) trouble: Option<String>,
}

/// The hidden subcommand: tries everything in the node where it runs, and prints the list of [`Found`].
pub(crate) fn main() -> i32 {
    let found: Vec<Found> = [
        (Capability::Signal, Ok(())),
        (Capability::Ptrace, try_ptrace()),
        (Capability::PacketFilter, try_rule(&["-j", "DROP"])),
        (Capability::PacketQueue, try_rule(&["-j", "NFQUEUE", "--queue-num", "4242", "--queue-bypass"])),
        (Capability::Netem, run("tc", &["qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"])),
        (Capability::Fuse, try_fuse()),
    ]
    .into_iter()
    .map(|(capability, tried)| Found { capability, trouble: tried.err() })
    .collect();
    println!("{}", serde_json::to_string(&found).unwrap_or_default());
    0
}

fn try_rule(target: &[&str]) -> Result<(), String> {
    let rule = |verb| [&[verb, "OUTPUT", "-p", "tcp", "--dport", "1"], target].concat();
    run("iptables", &rule("-A"))?;
    run("iptables", &rule("-D"))
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} says: {}", said.lines().next().unwrap_or("nothing, and fails").trim()))
}

fn try_fuse() -> Result<(), String> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    opened.map(drop).map_err(|error| format!("cannot open /dev/fuse: {error}"))?;
    if has_capability(21) { Ok(()) } else { Err("a node may not mount (CAP_SYS_ADMIN)".to_owned()) }
}

/// Whether this process has the capability of that number in effect.
fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(0);
    bits >> number & 1 == 1
}

/// Stops a child of its own, as the clock fault stops a server.
fn try_ptrace() -> Result<(), String> {
    let cannot = |error: nix::errno::Errno| format!("cannot trace a process: {}", error.desc());
    // SAFETY: this process has a single thread.
    match unsafe { fork() }.map_err(cannot)? {
        ForkResult::Child => {
            let _ = raise(Signal::SIGSTOP);
            std::process::exit(0)
        }
        ForkResult::Parent { child } => {
            let traced =
                ptrace::seize(child, ptrace::Options::empty()).and_then(|()| ptrace::interrupt(child));
            let stopped = traced.and_then(|()| waitpid(child, None));
            let _ = nix::sys::signal::kill(child, Signal::SIGKILL);
            let _ = waitpid(child, None);
            match stopped.map_err(cannot)? {
                WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..) => Ok(()),
                other => Err(format!("a traced process did not stop: {other:?}")),
            }
        }
    }
}
