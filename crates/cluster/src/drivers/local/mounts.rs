//! Mounts of folders, files and memory, with errors that name the place.

use crate::mount_attributes::set_read_only;
use nix::errno::Errno;
use nix::libc;
use nix::mount::{MsFlags, mount};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Of what lies there nothing is executed, is a device, or gives rights.
pub(super) const NOTHING_RUNS: MsFlags =
    MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC);

/// Hides a file or folder: an empty one takes its place.
pub(super) fn mask(path: &Path) -> io::Result<()> {
    match path.is_dir() {
        true => mount_tmpfs(path, NOTHING_RUNS | MsFlags::MS_RDONLY, "size=0"),
        false => bind(Path::new("/dev/null"), path),
    }
}

pub(super) fn bind(from: &Path, to: &Path) -> io::Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .map_err(|error| cannot("bind a folder of this machine to", to, error))
}

pub(super) fn bind_read_only(from: &Path, to: &Path) -> io::Result<()> {
    bind(from, to)?;
    read_only(to)
}

/// With everything mounted below. Kernels before 5.12 cannot, and then the node may write there.
fn read_only(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    match set_read_only(&name, libc::AT_RECURSIVE, true) {
        Ok(()) | Err(Errno::ENOSYS) => Ok(()),
        Err(error) => Err(cannot("protect", path, error)),
    }
}

pub(super) fn cannot(what: &str, path: &Path, error: Errno) -> io::Error {
    io::Error::new(
        io::Error::from(error).kind(),
        format!("cannot {what} {}: {}", path.display(), error.desc()),
    )
}

pub(super) fn mount_tmpfs(place: &Path, flags: MsFlags, options: &str) -> io::Result<()> {
    mount(Some("tmpfs"), place, Some("tmpfs"), flags, Some(options))
        .map_err(|error: Errno| cannot("mount a tmpfs on", place, error))
}
