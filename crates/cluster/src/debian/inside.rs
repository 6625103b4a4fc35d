//! Runs a program inside a root file system, or beside it on this machine: without a network, and confined.

use crate::ClusterError;
use crate::confinement::Confinement;
use crate::mount_attributes::set_read_only;
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

/// Has root's command run on this machine's own files, of which it can change those below `folder` alone, as
/// far as the kernel and the rights allow that. The command of another user has no more rights than the user.
pub(super) fn run_beside(command: &mut Command, folder: &Path) -> Result<(), ClusterError> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let enter = move || {
        let none = std::ptr::null::<libc::c_char>();
        // SAFETY: system calls only, as is right between fork and exec; the paths end in a zero byte.
        unsafe {
            libc::unshare(libc::CLONE_NEWNET);
            let path = folder.as_ptr();
            let _ = libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) == 0
                && libc::mount(path, path, none, libc::MS_BIND, none.cast()) == 0
                && set_read_only(c"/", libc::AT_RECURSIVE, true).is_ok()
                && set_read_only(&folder, 0, false).is_ok();
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(enter) };
    Confinement::Program.apply_to(command);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Root loses the rights that a node's programs do not have; another user keeps to its own.
    #[test]
    fn what_runs_beside_writes_into_its_folder_and_is_confined() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        let script = format!(
            "echo a > {}/a && grep NoNewPrivs /proc/self/status; echo b > {}/b",
            folder.path().display(),
            outside.path().display()
        );
        command.args(["-c", &script]);
        run_beside(&mut command, folder.path()).unwrap();
        let output = command.output().unwrap();
        assert!(folder.path().join("a").exists(), "{output:?}");
        if nix::unistd::geteuid().is_root() {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.starts_with("NoNewPrivs:\t1\n"), "{output:?}");
            // Where the file system could be protected, it was.
            let refused = String::from_utf8_lossy(&output.stderr);
            assert_eq!(outside.path().join("b").exists(), !refused.contains("Read-only"), "{output:?}");
        }
    }
}
