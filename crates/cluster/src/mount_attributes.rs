//! Mounts that are made read-only, or writable again.

use nix::errno::Errno;
use nix::libc;
use std::ffi::CStr;

/// One system call, which a process that was just forked may make. `flags` can have `AT_RECURSIVE`.
pub(crate) fn set_read_only(path: &CStr, flags: i32, read_only: bool) -> Result<(), Errno> {
    let (attr_set, attr_clr) =
        if read_only { (libc::MOUNT_ATTR_RDONLY, 0) } else { (0, libc::MOUNT_ATTR_RDONLY) };
    let attributes = libc::mount_attr { attr_set, attr_clr, propagation: 0, userns_fd: 0 };
    let (at, size) = (libc::AT_FDCWD, size_of::<libc::mount_attr>());
    // SAFETY: the path ends in a zero byte, the structure has the passed size, and both outlive the call.
    let set = unsafe {
        libc::syscall(libc::SYS_mount_setattr, at, path.as_ptr(), flags, &raw const attributes, size)
    };
    Errno::result(set).map(drop)
}
