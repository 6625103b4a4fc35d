//! Processes in namespaces of their own, which end with their parent.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{ForkResult, fork, getegid, geteuid};
use std::io;

/// Makes namespaces for mounts and processes, and those of these flags, and forks into the new PID namespace.
pub(super) fn enter_namespaces(more: CloneFlags) -> io::Result<ForkResult> {
    let (user, group) = (geteuid(), getegid());
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | more;
    if !user.is_root() {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags)?;
    if !user.is_root() {
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    }
    die_with_parent()?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    // SAFETY: this process has a single thread.
    Ok(unsafe { fork() }?)
}

/// A parent that died before this call leaves standard input closed, which ends the child, too.
pub(super) fn die_with_parent() -> io::Result<()> {
    Ok(set_pdeathsig(Signal::SIGKILL)?)
}
