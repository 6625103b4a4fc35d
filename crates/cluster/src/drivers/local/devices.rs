//! The node's own /dev and /proc: of devices those that programs need, and of the kernel's settings none that
//! could be changed. This machine's /dev has its disks, and root of a node is root to the files in it.

use super::mounts::{NOTHING_RUNS, bind, cannot, mask, mount_tmpfs};
use crate::ClusterError;
use crate::protocol::NodeLimits;
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Without these, neither servers nor this program's own parts work.
const NEEDED: [&str; 4] = ["null", "zero", "random", "urandom"];

const FUSE: &str = "fuse";

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Files and folders of /proc that show or do what is the whole machine's.
const MASKED: [&str; 9] =
    ["acpi", "kcore", "keys", "kmsg", "latency_stats", "sched_debug", "scsi", "sysrq-trigger", "timer_list"];

/// The kernel's settings: they can be read.
const READ_ONLY: [&str; 4] = ["bus", "fs", "irq", "sys"];

/// Refuses a machine that lacks devices which every node needs. The error names them.
pub(super) fn check() -> Result<(), ClusterError> {
    check_in(Path::new("/dev"))
}

fn check_in(dev: &Path) -> Result<(), ClusterError> {
    let is_there = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device());
    let missing: Vec<String> = NEEDED
        .iter()
        .map(|name| dev.join(name))
        .filter(|path| !is_there(path))
        .map(|path| path.display().to_string())
        .collect();
    match &missing[..] {
        [] => Ok(()),
        _ => Err(ClusterError::new(format!(
            "this machine has no {}, which nodes need: mount a /dev with these devices",
            missing.join(", no ")
        ))),
    }
}

/// Bounds the shared segments of System V (`man 7 sysvipc`), which outlive their programs. Only a kernel that
/// lets the user of a namespace set that has to be asked: elsewhere the control group counts them.
pub(super) fn limit_segments(proc: &Path, limits: NodeLimits) {
    let pages = limits.memory_bytes >> 12;
    let _ = fs::write(proc.join("sys/kernel/shmall"), pages.to_string());
}

pub(super) fn make_devices(dev: &Path, may_mount: bool, limits: Option<NodeLimits>) -> io::Result<()> {
    mount_tmpfs(dev, MsFlags::MS_NOSUID, "mode=755,size=1m")?;
    for name in DEVICES.into_iter().chain(may_mount.then_some(FUSE)) {
        let source = Path::new("/dev").join(name);
        // A machine without FUSE has no such file.
        if source.exists() {
            File::create(dev.join(name))?;
            bind(&source, &dev.join(name))?;
        }
    }
    for (name, target) in LINKS {
        symlink(target, dev.join(name))?;
    }
    // POSIX shared memory is files: those of a server that is killed go with the node's mounts.
    let shared = dev.join("shm");
    fs::create_dir(&shared)?;
    let size = limits.map_or_else(String::new, |limits| format!(",size={}", limits.memory_bytes));
    mount_tmpfs(&shared, MsFlags::MS_NOSUID | MsFlags::MS_NODEV, &format!("mode=1777{size}"))?;
    let terminals = dev.join("pts");
    fs::create_dir(&terminals)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = Some("newinstance,ptmxmode=0666,mode=0620");
    // Hardly any program needs a terminal: a machine that has none to give is no reason to fail.
    let _ = mount(Some("devpts"), &terminals, Some("devpts"), flags, options);
    fs::set_permissions(dev, fs::Permissions::from_mode(0o755))
}

/// Mounts the /proc of this process's PID namespace. Its mount namespace must be its own.
pub(super) fn mount_proc(place: &Path) -> io::Result<()> {
    mount(Some("proc"), place, Some("proc"), NOTHING_RUNS, None::<&str>)
        .map_err(|error| cannot("mount the node's own /proc on", place, error))
}

/// Keeps the processes of a node from what is the whole machine's in the /proc that is mounted there.
pub(super) fn protect_proc(place: &Path) -> io::Result<()> {
    for path in READ_ONLY.map(|name| place.join(name)).iter().filter(|path| path.exists()) {
        bind(path, path)?;
        let flags = NOTHING_RUNS | MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(None::<&str>, path, None::<&str>, flags, None::<&str>)
            .map_err(|error| cannot("protect", path, error))?;
    }
    for path in MASKED.map(|name| place.join(name)).iter().filter(|path| path.exists()) {
        mask(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_are_missing_are_named() {
        assert!(check().is_ok());
        let folder = tempfile::tempdir().unwrap();
        // A file that programs wrote in the place of a device that was gone.
        fs::write(folder.path().join("null"), "x").unwrap();
        let error = check_in(folder.path()).unwrap_err().to_string();
        let named = NEEDED.map(|name| folder.path().join(name).display().to_string()).join(", no ");
        assert!(error.contains(&format!("has no {named}, which nodes need")), "{error}");
    }
}
