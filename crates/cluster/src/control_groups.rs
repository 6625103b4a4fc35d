//! Control groups of nodes with limits: the kernel counts processes and threads, and no program gets past
//! that. The agent counts the same, allows less, and says what it was.
//!
//! A group is made where this user may make one (`man 7 cgroups`): in version 1 below this process's own, in
//! version 2 in the nearest one above that hands the controller on. Else, as for most users, there is none.

use crate::protocol::TASKS_MAX;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes and threads of a node: its agent allows less, has some itself, and needs time to look.
pub(crate) const TASKS: u64 = TASKS_MAX + 500;

/// A group has as much of the processor as all that is beside it, servers among them, which weighs 100: that
/// is what all clients of a usual run get together.
const CPU_WEIGHT: u64 = 20;

/// Groups are empty a moment after their processes have ended.
const EMPTY: (u32, Duration) = (50, Duration::from_millis(20));

/// Makes the group of a node. `write_down` gets its folder before it is there. A process that writes `0` into
/// the file goes over to the group.
pub(crate) fn make(name: &str, write_down: &mut dyn FnMut(&Path) -> io::Result<()>) -> Option<OwnedFd> {
    let folder = parent()?.join(format!("fencepost-{name}"));
    write_down(&folder).and_then(|()| fill(&folder)).ok()
}

fn fill(folder: &Path) -> io::Result<OwnedFd> {
    std::fs::create_dir(folder)?;
    let set = |file: &str, number: u64| std::fs::write(folder.join(file), number.to_string());
    set("pids.max", TASKS)?;
    if folder.join("cpu.weight").exists() {
        set("cpu.weight", CPU_WEIGHT)?;
    }
    Ok(OpenOptions::new().write(true).open(folder.join("cgroup.procs"))?.into())
}

fn parent() -> Option<PathBuf> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let hands_on = |folder: &PathBuf| {
        let controllers = std::fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        controllers.split_whitespace().any(|name| name == "pids")
    };
    let second = || {
        let (mount, own) = hierarchy(&mounts, &own, None)?;
        own.ancestors().map(|above| below(&mount, above)).find(hands_on)
    };
    let first = || {
        let (mount, own) = hierarchy(&mounts, &own, Some("pids"))?;
        // In a container the way to the own group may be that of the machine.
        Some(below(&mount, &own)).filter(|folder| folder.is_dir()).or(Some(mount))
    };
    second().or_else(first)
}

fn below(mount: &Path, group: &Path) -> PathBuf {
    mount.join(group.strip_prefix("/").unwrap_or(group))
}

/// The mounted hierarchy of a controller of version 1, else of version 2, and the group of this process.
fn hierarchy(mounts: &str, own: &str, controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    let of_list = |list: &str| controller.is_some_and(|name| list.split(',').any(|one| one == name));
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let is_it = match (controller, kind.next()?) {
            (Some(_), "cgroup") => of_list(kind.nth(1)?),
            (None, "cgroup2") => true,
            _ => false,
        };
        is_it.then(|| place.split(' ').nth(4)).flatten()
    })?;
    let group = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let is_it = if controller.is_some() { of_list(controllers) } else { controllers.is_empty() };
        is_it.then_some(group)
    })?;
    Some((PathBuf::from(mount), PathBuf::from(group)))
}

/// Removes groups whose processes have ended, or are just ending; those that are gone are none.
pub(crate) fn remove(folders: &str) {
    for folder in folders.lines().map(Path::new).filter(|folder| is_of_fencepost(folder)) {
        for _ in 0..EMPTY.0 {
            match std::fs::remove_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(EMPTY.1),
                _ => break,
            }
        }
    }
}

fn is_of_fencepost(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"fencepost-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_both_versions() {
        let mounts = "30 29 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
             31 29 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
             32 29 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/user.slice/session:1.scope\n";
        let of = |controller| hierarchy(mounts, own, controller).map(|(mount, own)| below(&mount, &own));
        assert_eq!(of(Some("memory")), Some(PathBuf::from("/sys/fs/cgroup/memory/a/b")));
        assert_eq!(of(Some("cpuacct")), Some(PathBuf::from("/sys/fs/cgroup/cpu")));
        assert_eq!(of(None), Some(PathBuf::from("/sys/fs/cgroup/unified/user.slice/session:1.scope")));
        assert_eq!(of(Some("pids")), None);
    }

    #[test]
    fn a_group_has_a_limit_before_a_process_is_in_it() {
        // Where the kernel makes no files, a group has none that takes processes.
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("fencepost-a-c1");
        assert!(fill(&folder).is_err());
        assert_eq!(std::fs::read_to_string(folder.join("pids.max")).unwrap(), "5500");
    }

    #[test]
    fn only_groups_of_fencepost_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = ["fencepost-a-c1", "system.slice"].map(|name| folder.path().join(name));
        for each in [&own, &other] {
            std::fs::create_dir(each).unwrap();
        }
        remove(&format!("{}\n{}\n{}/gone\n", own.display(), other.display(), folder.path().display()));
        assert!(!own.exists() && other.exists());
    }
}
