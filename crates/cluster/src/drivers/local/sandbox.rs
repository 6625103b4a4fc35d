//! `fencepost sandbox`: the process that holds all nodes of a run, in namespaces of its own.
//!
//! Its network namespace has the bridge and one end of each node's cable; its PID namespace has all nodes'
//! processes. So this machine sees no interface, no address and no rule, and when the sandbox dies the kernel
//! removes everything. It dies with its starting thread (PR_SET_PDEATHSIG), or its standard input.

use super::namespaces::{die_with_parent, enter_namespaces};
use super::root::{Data, Root, RootLock};
use crate::confinement::confine_agent;
use crate::confinement::control_groups::TASKS;
use crate::environment::{PLACE, USUAL_PATH};
use crate::network::netlink::Netlink;
use crate::network::subnet::Subnet;
use crate::protocol::NodeLimits;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sched::CloneFlags;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::wait::waitpid;
use nix::unistd::{self, ForkResult, Pid};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

/// What a sandbox holds: one line of JSON on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) nodes: Vec<PlannedNode>,
    pub(super) mount_place: PathBuf,
    pub(super) program: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlannedNode {
    pub(super) name: String,
    pub(super) address: Ipv4Addr,
    /// What its root file system is made of: `/`, or an unpacked image.
    pub(super) root: PathBuf,
    pub(super) data: PathBuf,
    pub(super) may_mount: bool,
    /// A user's programs, made ready; they run with those of this machine.
    pub(super) lock: Option<PathBuf>,
    pub(super) path: String,
    pub(super) agent: Vec<String>,
    /// Inherited: the agent's standard input and output, and where attached programs come from.
    pub(super) stream: RawFd,
    pub(super) attach: RawFd,
    /// Inherited likewise: what puts a process into each of its control groups.
    pub(super) groups: Vec<RawFd>,
    pub(super) limits: Option<NodeLimits>,
}

impl PlannedNode {
    fn inherited(&self) -> impl Iterator<Item = RawFd> {
        [self.stream, self.attach].into_iter().chain(self.groups.iter().copied())
    }
}

/// Whether all agents were started, as the sandbox says it: one line of JSON on its standard output.
pub(super) type SandboxReport = Result<(), String>;

pub(crate) fn run_sandbox() -> i32 {
    match enter_namespaces(CloneFlags::CLONE_NEWNET) {
        Ok(ForkResult::Parent { child }) => {
            // Only the inner process holds the nodes: this one must not keep a stream open.
            close_inherited();
            let _ = waitpid(child, None);
            0
        }
        Ok(ForkResult::Child) => inner(),
        Err(error) => report(&Err(format!("cannot make namespaces: {error}"))),
    }
}

fn inner() -> i32 {
    let mut input = io::stdin().lock();
    let started = die_with_parent().and_then(|()| {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let plan: Plan = serde_json::from_str(&line)?;
        start(&plan)
    });
    let code = report(&started.map_err(|error| error.to_string()));
    if code == 0 {
        let _ = input.read_to_end(&mut Vec::new());
    }
    // The kernel now kills every process of this namespace.
    code
}

fn report(report: &SandboxReport) -> i32 {
    let line = serde_json::to_string(report).unwrap_or_default();
    let written = writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush());
    i32::from(written.is_err() || report.is_err())
}

fn start(plan: &Plan) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let bridge = netlink.add_bridge("fencepost")?;
    // Closes when every child has become an agent. What comes out of it before is the reason why one has not.
    let (mut failures, failure) = pipe()?;
    for fd in plan.nodes.iter().flat_map(PlannedNode::inherited) {
        // SAFETY: the controller left it open for this process.
        fcntl(unsafe { BorrowedFd::borrow_raw(fd) }, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        let (wired, mut wired_sender) = pipe()?;
        let child = spawn(plan, node, wired, &failure)?;
        netlink.add_cable(&format!("node{index}"), bridge, "eth0", child.as_raw().unsigned_abs()).map_err(
            |error| io::Error::other(format!("{}: cannot add its network cable: {error}", node.name)),
        )?;
        // The children go on side by side.
        wired_sender.write_all(&[0])?;
    }
    drop(failure);
    for fd in plan.nodes.iter().flat_map(PlannedNode::inherited) {
        let _ = unistd::close(fd);
    }
    let mut text = String::new();
    failures.read_to_string(&mut text)?;
    if text.is_empty() { Ok(()) } else { Err(io::Error::other(text.trim().to_owned())) }
}

/// A child in namespaces of its own, which waits until its network is there and becomes the node's agent.
fn spawn(plan: &Plan, node: &PlannedNode, mut wired: File, failure: &File) -> io::Result<Pid> {
    // With shared memory of its own: a server that is killed cannot remove its segments.
    let own = libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWUTS;
    let flags = own | libc::CLONE_NEWIPC;
    // SAFETY: like fork, in a process of a single thread: without a stack the child goes on with a copy.
    let child =
        unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags | libc::SIGCHLD), 0, 0, 0, 0) };
    match nix::errno::Errno::result(child)? {
        0 => {
            let Err(error) = become_agent(plan, node, &mut wired);
            let _ = writeln!(&mut { failure }, "{}: {error}", node.name);
            // SAFETY: ends the process, and nothing else.
            unsafe { libc::_exit(1) }
        }
        child => Ok(Pid::from_raw(i32::try_from(child).expect("process numbers are small"))),
    }
}

fn become_agent(plan: &Plan, node: &PlannedNode, wired: &mut File) -> io::Result<std::convert::Infallible> {
    unistd::sethostname(&node.name)?;
    for &group in &node.groups {
        // Where that is refused, the agent alone watches, as without a group.
        // SAFETY: the controller left it open for this process.
        let _ = unistd::write(unsafe { BorrowedFd::borrow_raw(group) }, b"0");
    }
    // SAFETY: inherited for this purpose, and used nowhere else in this process.
    let (stream, attach) = unsafe { (OwnedFd::from_raw_fd(node.stream), OwnedFd::from_raw_fd(node.attach)) };
    wired.read_exact(&mut [0])?;
    let netlink = Netlink::open()?;
    netlink.set_up("lo")?;
    netlink.add_address("eth0", node.address, Subnet::PREFIX)?;
    netlink.set_up("eth0")?;
    let root = Root {
        place: &plan.mount_place,
        source: &node.root,
        data: node.limits.map_or(Data::Folder(&node.data), Data::Limited),
        program: Some(&plan.program),
        lock: node.lock.as_deref().map(|folder| RootLock { folder, writable: false }),
        may_mount: node.may_mount,
        making: None,
    };
    root.enter()?;
    if node.lock.is_some() {
        unistd::chdir(PLACE)?;
    }
    unistd::dup2_stdin(&stream)?;
    unistd::dup2_stdout(&stream)?;
    let argv = node.agent.iter().map(|arg| CString::new(arg.as_str())).collect::<Result<Vec<_>, _>>()?;
    let env = environment_of(node)?;
    // Stays open for the agent; whatever else this process has open closes by itself.
    fcntl(&attach, FcntlArg::F_SETFD(FdFlag::empty()))?;
    if node.limits.is_some() {
        // Counts in the user namespace that a user without rights has here; root has control groups.
        setrlimit(Resource::RLIMIT_NPROC, TASKS, TASKS)?;
    }
    confine_agent(node.may_mount)?;
    Ok(unistd::execve(&argv[0], &argv, &env)?)
}

/// What the programs of a node find in their environment: nothing of the user's, but where the user's own
/// programs run with those of this machine, which are then found as in the user's shell.
fn environment_of(node: &PlannedNode) -> io::Result<Vec<CString>> {
    let path = match std::env::var("PATH") {
        Ok(path) if node.lock.is_some() && node.root == Path::new("/") => format!("PATH={path}:{USUAL_PATH}"),
        _ => format!("PATH={}", node.path),
    };
    let passed = ["RUST_LOG", "RUST_BACKTRACE"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok().map(|value| format!("{name}={value}")));
    let all = [path, "HOME=/tmp".to_owned(), "LANG=C.UTF-8".to_owned()].into_iter().chain(passed);
    all.map(|entry| CString::new(entry).map_err(io::Error::other)).collect()
}

fn pipe() -> io::Result<(File, File)> {
    let (read, write) = unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    Ok((File::from(read), File::from(write)))
}

fn close_inherited() {
    for fd in 3..1024 {
        let _ = unistd::close(fd);
    }
}
