//! Inside a node: what it can do, found by trying it.

use crate::ClusterError;
use crate::capability::Capability;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use serde::{Deserialize, Serialize};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProbeResult {
    pub(crate) capability: Capability,
    pub(crate) reason: Option<String>,
}

/// The hidden subcommand: tries everything in the node where it runs, and prints the list of [`ProbeResult`].
pub(crate) fn run_probe() -> i32 {
    let found: Vec<ProbeResult> = [
        (Capability::Signal, Ok(())),
        (Capability::Ptrace, try_ptrace()),
        (Capability::PacketFilter, try_rule(&["-j", "DROP"])),
        (Capability::PacketQueue, try_rule(&["-j", "NFQUEUE", "--queue-num", "4242", "--queue-bypass"])),
        (Capability::Netem, run("tc", &["qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"])),
        (Capability::Fuse, try_fuse()),
    ]
    .into_iter()
    .map(|(capability, tried)| ProbeResult { capability, reason: tried.err().map(|error| error.0) })
    .collect();
    println!("{}", serde_json::to_string(&found).unwrap_or_default());
    0
}

fn try_rule(target: &[&str]) -> Result<(), ClusterError> {
    let rule = |verb| [&[verb, "OUTPUT", "-p", "tcp", "--dport", "1"], target].concat();
    run("iptables", &rule("-A"))?;
    run("iptables", &rule("-D"))
}

fn run(program: &str, args: &[&str]) -> Result<(), ClusterError> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} says: {}", said.lines().next().unwrap_or("nothing, and fails").trim()).into())
}

/// Mounts a file system without a server, and unmounts it again.
fn try_fuse() -> Result<(), ClusterError> {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(|error| format!("cannot open /dev/fuse: {error}"))?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("fencepost-probe"), "/tmp", Some("fuse"), flags, Some(options.as_str()))
        .map_err(|error| format!("a node may not mount: {}", error.desc()))?;
    umount2("/tmp", MntFlags::MNT_DETACH)
        .map_err(|error| ClusterError::new(format!("a node may not unmount: {}", error.desc())))
}

/// Stops a child of its own, as the clock fault stops a server.
fn try_ptrace() -> Result<(), ClusterError> {
    let cannot =
        |error: nix::errno::Errno| ClusterError::new(format!("cannot trace a process: {}", error.desc()));
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
                other => Err(format!("a traced process did not stop: {other:?}").into()),
            }
        }
    }
}
