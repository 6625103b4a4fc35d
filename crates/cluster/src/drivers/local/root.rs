//! The root file system that a node of the local driver sees.
//!
//! It is put together from mounts, in a mount namespace that dies with the node: everything of the source
//! (this machine's own root, or an unpacked image) can be read and run but not written; /data, /tmp and /run
//! are the node's own, as are /dev and /proc; Fencepost lies in /fencepost.

use super::devices;
use super::mounts::{bind, bind_read_only, cannot, mask, mount_tmpfs};
use super::network_files;
use super::secrets;
use crate::environment::PLACE;
use crate::protocol::NodeLimits;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Not taken over from the source: the node has its own.
const OWN: [&str; 8] = ["proc", "sys", "dev", "tmp", "run", "data", "lock", "fencepost"];

/// Not taken over either, for no program lies there.
const LEFT_OUT: [&str; 4] = ["boot", "lost+found", "media", "mnt"];

/// Empty in nodes in which no programs of the user run: whatever else lies there is no server's.
const HOMES: [&str; 2] = ["home", "root"];

pub(super) struct Root<'a> {
    pub(super) place: &'a Path,
    pub(super) source: &'a Path,
    pub(super) data: Data<'a>,
    pub(super) program: Option<&'a Path>,
    pub(super) lock: Option<RootLock<'a>>,
    pub(super) may_mount: bool,
    /// For a command that makes something ready: it has this machine's network, /tmp on the disk (in this
    /// folder), and in this machine's own root the user's home, for caches of package managers.
    pub(super) making: Option<&'a Path>,
}

pub(super) enum Data<'a> {
    None,
    Folder(&'a Path),
    /// Of a node with limits: in memory, so that the kernel sees to its size.
    Limited(NodeLimits),
}

/// Makes the working directory, on which a file system is mounted, the root.
fn change_root() -> Result<(), Errno> {
    match unistd::pivot_root(".", ".") {
        // With the same place twice the old root lies over the new one, and is taken away from there.
        Ok(()) => umount2(".", MntFlags::MNT_DETACH),
        // Docker's filter of system calls forbids this one in every container, and an engine such as Swarm
        // can give no other. The old root then stays; no program in a node has the rights to get there.
        Err(Errno::EPERM) => {
            mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)?;
            unistd::chroot(".")
        }
        Err(error) => Err(error),
    }
}

/// A copy of `/etc/hosts` in its place, for the agent to change; it can be a link in the new root.
fn own_hosts() -> io::Result<()> {
    let (hosts, own) = (Path::new("/etc/hosts"), Path::new("/run/hosts"));
    match std::fs::copy(hosts, own) {
        Ok(_) => bind(own, hosts),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) struct RootLock<'a> {
    pub(super) folder: &'a Path,
    pub(super) writable: bool,
}

impl Root<'_> {
    /// Makes it this process's root. Its mount and PID namespaces must be its own.
    pub(super) fn enter(&self) -> io::Result<()> {
        mount_tmpfs(self.place, MsFlags::MS_NOSUID, "mode=755,size=256m,nr_inodes=100k")?;
        for entry in std::fs::read_dir(self.source)? {
            let entry = entry?;
            let name = entry.file_name();
            if !OWN.iter().chain(&LEFT_OUT).any(|other| name == *other) {
                self.take_over(&entry.path(), &self.place.join(&name), entry.file_type()?)?;
            }
        }
        if self.is_this_machine() && self.making.is_none() {
            self.hide_secrets()?;
        }
        for name in OWN {
            std::fs::create_dir(self.place.join(name))?;
        }
        std::fs::set_permissions(self.place.join("tmp"), std::fs::Permissions::from_mode(0o1777))?;
        let data = self.place.join("data");
        match self.data {
            Data::None => {}
            Data::Folder(folder) => bind(folder, &data)?,
            Data::Limited(limits) => mount_tmpfs(&data, MsFlags::MS_NOSUID, &limits.of_data_folder())?,
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
        devices::make_devices(&self.place.join("dev"), self.may_mount, self.limits())?;
        let proc = self.place.join("proc");
        devices::mount_proc(&proc)?;
        if let Some(limits) = self.limits() {
            devices::limit_segments(&proc, limits);
        }
        devices::protect_proc(&proc)?;
        std::env::set_current_dir(self.place)?;
        change_root().map_err(|error| cannot("change the root to", self.place, error))?;
        std::env::set_current_dir("/")?;
        if self.making.is_none() { own_hosts() } else { Ok(()) }
    }

    fn limits(&self) -> Option<NodeLimits> {
        if let Data::Limited(limits) = self.data { Some(limits) } else { None }
    }

    fn is_this_machine(&self) -> bool {
        self.source == Path::new("/")
    }

    fn hide_secrets(&self) -> io::Result<()> {
        let homes = HOMES.iter().filter(|_| self.lock.is_none()).map(|name| self.place.join(name));
        homes.filter(|path| path.exists()).try_for_each(|path| mask(&path))?;
        secrets::hide(self.place)
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
