//! The root file system that a node of the local driver sees.
//!
//! It is put together from mounts, in a mount namespace that dies with the node: everything of the source (this
//! machine's own root, or an unpacked image) can be read and run but not written; /data, /tmp and /run are the node's
//! own; Fencepost lies in /fencepost.

use super::network_files;
use crate::environment::PLACE;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::{libc, unistd};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Not taken over from the source: the node has its own.
const OWN: [&str; 8] = ["proc", "sys", "dev", "tmp", "run", "data", "lock", "fencepost"];

/// Not taken over either, for no program lies there.
const LEFT_OUT: [&str; 4] = ["boot", "lost+found", "media", "mnt"];

/// What a root is made of.
pub(super) struct Root<'a> {
    /// An empty folder on which the new root is mounted.
    pub(super) place: &'a Path,
    pub(super) source: &'a Path,
    pub(super) data: Option<&'a Path>,
    pub(super) program: Option<&'a Path>,
    pub(super) lock: Option<Lock<'a>>,
    /// For a command that makes something ready: it finds the network as this machine does, has its /tmp on the disk
    /// (in this folder), and in this machine's own root may keep files in the user's home, where package managers
    /// have caches.
    pub(super) making: Option<&'a Path>,
}

/// A user's folder, for [`PLACE`].
pub(super) struct Lock<'a> {
    pub(super) folder: &'a Path,
    pub(super) writable: bool,
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
        if let Some(data) = self.data {
            bind(data, &self.place.join("data"))?;
        }
        if let Some(program) = self.program {
            bind_read_only(program, &self.place.join("fencepost"))?;
        }
        if let Some(lock) = &self.lock {
            let place = self.place.join(PLACE.trim_start_matches('/'));
            if lock.writable { bind(lock.folder, &place)? } else { bind_read_only(lock.folder, &place)? }
        }
        if let Some(tmp) = self.making {
            bind(tmp, &self.place.join("tmp"))?;
            self.bring_network()?;
        }
        bind(Path::new("/dev"), &self.place.join("dev"))?;
        self.own_shared_memory()?;
        mount_proc(&self.place.join("proc"))?;
        std::env::set_current_dir(self.place)?;
        // With the same place twice the old root lies over the new one, and is taken away from there.
        unistd::pivot_root(".", ".").map_err(|error| cannot("change the root to", self.place, error))?;
        umount2(".", MntFlags::MNT_DETACH)?;
        std::env::set_current_dir("/")
    }

    /// For a process in a PID namespace of its own, which keeps the root it has.
    pub(super) fn renew_proc() -> io::Result<()> {
        mount_proc(Path::new("/proc"))
    }

    /// Whether it is made of this machine's own root.
    fn is_this_machine(&self) -> bool {
        self.source == Path::new("/")
    }

    fn bring_network(&self) -> io::Result<()> {
        if !self.is_this_machine() {
            return network_files::bring(self.place);
        }
        network_files::keep_name_resolution(self.place, &OWN)?;
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let Ok(below) = home.strip_prefix("/") else { return Ok(()) };
        let is_own = OWN.iter().any(|name| below.starts_with(name));
        if home.is_dir() && below != Path::new("") && !is_own {
            bind(&home, &self.place.join(below))
        } else {
            Ok(())
        }
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
        } else if kind.is_dir() && self.making.is_some() && !self.is_this_machine() && from.ends_with("etc") {
            // The files by which programs find the network lie there.
            network_files::copy_folder(from, to)
        } else if kind.is_dir() {
            std::fs::create_dir(to)?;
            bind_read_only(from, to)
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

fn bind_read_only(from: &Path, to: &Path) -> io::Result<()> {
    bind(from, to)?;
    read_only(to)
}

fn mount_proc(place: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), place, Some("proc"), flags, None::<&str>)
        .map_err(|error| cannot("mount the node's own /proc on", place, error))
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
