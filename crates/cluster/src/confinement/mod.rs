//! What the processes of a node may do. The agent has the rights that faults need; programs that it starts
//! have not, since they are root's in their node and may be anyone's. Rights do not come back: the bounding
//! set shrinks, too, `no_new_privs` is set, and administrators' system calls are refused.

pub(crate) mod control_groups;
mod system_calls;
pub(crate) mod user;

use nix::errno::Errno;
use nix::libc;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confinement {
    /// Servers, storages, clients: files of all users of the node, other users' names, low ports.
    Program,
    /// What changes the packet filter of its node.
    NetworkCommand,
}

/// What root of a node may do to the node's own files and processes.
const OF_PROGRAMS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

const OF_NETWORKS: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);

impl Confinement {
    fn capabilities(self) -> CapabilitySet {
        match self {
            Confinement::Program => OF_PROGRAMS,
            Confinement::NetworkCommand => OF_PROGRAMS.union(OF_NETWORKS),
        }
    }

    pub(crate) fn apply_to(self, command: &mut Command) {
        // Made before the fork: after it no memory can be had.
        let filter = system_calls::filter();
        // SAFETY: the closure makes system calls only.
        unsafe { command.pre_exec(move || self.confine(&filter)) };
    }

    /// Confines this process and all that it will start; counts from the next program that it executes.
    pub(crate) fn apply_here(self) -> io::Result<()> {
        self.confine(&system_calls::filter())
    }

    fn confine(self, filter: &[libc::sock_filter]) -> io::Result<()> {
        be_killed_first();
        keep_only(self.capabilities())?;
        set_no_new_privs(true)?;
        system_calls::install(filter)
    }
}

/// Where memory runs out, programs go before the agent and all else. Runs between fork and exec.
fn be_killed_first() {
    // SAFETY: the texts outlive the calls; where the file cannot be opened, the other calls get -1 and fail.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        libc::write(file, c"1000".as_ptr().cast(), 4);
        libc::close(file);
    }
}

/// Confines this process to what an agent needs: to trace and signal processes, to change its node's network,
/// to confine what it starts, and with `may_mount`, to mount. Counts from the next program on.
pub(crate) fn confine_agent(may_mount: bool) -> io::Result<()> {
    let mounting = if may_mount { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
    let more = CapabilitySet::SYS_PTRACE.union(CapabilitySet::SETPCAP).union(mounting);
    // The kernel wants this right of who gives the one user of a node another number (see `user`).
    let renaming = if user::has_other_users() { CapabilitySet::empty() } else { CapabilitySet::SETFCAP };
    keep_only(OF_PROGRAMS.union(OF_NETWORKS).union(more).union(renaming))
}

/// Drops all capabilities but these from the sets out of which root's next program gets its own.
fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    for number in 0..u64::BITS {
        if kept.bits() & (1 << number) != 0 {
            continue;
        }
        // SAFETY: a call that takes numbers only.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
        match Errno::result(dropped) {
            Ok(_) => {}
            // The kernel knows no more of them.
            Err(Errno::EINVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let sets = capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..sets })?;
    Ok(clear_ambient_capability_set()?)
}
