//! The root file system that a node of the local driver sees.
//!
//! It is put together from mounts, in a mount namespace that dies with the node: everything of the source (this
//! machine's own root, or an unpacked image) can be read and run but not written; /data, /tmp and /run are the node's
//! own; Fencepost lies in /fencepost.

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::{libc, unistd};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Not taken over from the source: the node has its own.
const OWN: [&str; 7] = ["proc", "sys", "dev", "tmp", "run", "data", "fencepost"];

/// Not taken over either, for no program lies there.
const LEFT_OUT: [&str; 4] = ["boot", "lost+found", "media", "mnt"];

/// What a root is made of.
pub(super) struct Root<'a> {
    /// An empty folder on which the new root is mounted.
    pub(super) place: &'a Path,
    pub(super) source: &'a Path,
    pub(super) data: &'a Path,
    pub(super) program: &'a Path,
}

impl Root<'_> {
    /// Makes it this process's root. Its mount and PID namespaces must be its own.
    pub(super) fn enter(&self) -> io::Result<()> {
        mount(Some("tmpfs"), self.place, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755,size=256m"))
            .map_err(|error| cannot("mount a tmpfs on", self.place, error))?;
        for entry in std::fs::read_dir(self.source)? {
            let entry = entry?;
            let name = entry.file_name();
            if !OWN.iter().chain(&LEFT_OUT).any(|other| name == *other) {
                self.take_over(&entry.path(), &self.place.join(&name), entry.file_type()?)?;
            }
        }
        for name in OWN {
            std::fs::create_dir(self.place.join(name))?;
        }
        std::fs::set_permissions(self.place.join("tmp"), std::fs::Permissions::from_mode(0o1777))?;
        bind(self.data, &self.place.join("data"))?;
        bind(self.program, &self.place.join("fencepost"))?;
        read_only(&self.place.join("fencepost"))?;
        bind(Path::new("/dev"), &self.place.join("dev"))?;
        self.own_shared_memory()?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let proc = self.place.join("proc");
        mount(Some("proc"), &proc, Some("proc"), flags, None::<&str>)
            .map_err(|error| cannot("mount the node's own /proc on", &proc, error))?;
        std::env::set_current_dir(self.place)?;
        // With the same place twice the old root lies over the new one, and is taken away from there.
        unistd::pivot_root(".", ".").map_err(|error| cannot("change the root to", self.place, error))?;
        umount2(".", MntFlags::MNT_DETACH)?;
        std::env::set_current_dir("/")
    }

    /// POSIX shared memory is files in /dev/shm: those of a server that is killed go with the node's mounts.
    fn own_shared_memory(&self) -> io::Result<()> {
        let place = self.place.join("dev/shm");
        // Where it is a link, it leads to /run, which is the node's own already.
        if !std::fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), &place, Some("tmpfs"), flags, Some("mode=1777"))
            .map_err(|error| cannot("mount a tmpfs on", &place, error))
    }

    fn take_over(&self, from: &Path, to: &Path, kind: std::fs::FileType) -> io::Result<()> {
        if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(from)?, to)
        } else if kind.is_dir() {
            std::fs::create_dir(to)?;
            bind(from, to)?;
            read_only(to)
        } else {
            // Files at the top are remains: kernels, swap files, notes.
            Ok(())
        }
    }
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .map_err(|error| cannot("bind a folder of this machine to", to, error))
}

/// With everything mounted below. Kernels before 5.12 cannot, and then the node may write there.
fn read_only(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let attributes =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the name ends in a zero byte, the structure has the size that is passed, and both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            name.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    match Errno::result(result) {
        Ok(_) | Err(Errno::ENOSYS) => Ok(()),
        Err(error) => Err(cannot("protect", path, error)),
    }
}

fn cannot(what: &str, path: &Path, error: Errno) -> io::Error {
    let path: PathBuf = path.into();
    io::Error::new(
        io::Error::from(error).kind(),
        format!("cannot {what} {}: {}", path.display(), error.desc()),
    )
}
