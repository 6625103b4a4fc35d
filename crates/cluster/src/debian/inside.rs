//! Running a program inside a root file system that no node uses yet: without a network, and confined like a
//! node's programs.

use crate::ClusterError;
use crate::confinement::Confinement;
use nix::libc;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Has the command run inside. As another user than root this takes a user namespace.
pub(super) fn run_inside(command: &mut Command, root: &Path) -> Result<(), ClusterError> {
    let root = CString::new(root.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let is_root = nix::unistd::geteuid().is_root();
    let enter = move || {
        // SAFETY: system calls only, as is right between fork and exec; the paths end in a zero byte.
        let entered = unsafe {
            let of_its_own = is_root || libc::unshare(libc::CLONE_NEWUSER) == 0;
            // In a container root may not have this right; the program has nothing to download all the same.
            libc::unshare(libc::CLONE_NEWNET);
            of_its_own && libc::chroot(root.as_ptr()) == 0 && libc::chdir(c"/".as_ptr()) == 0
        };
        if entered { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(enter) };
    Confinement::Program.apply_to(command);
    Ok(())
}
