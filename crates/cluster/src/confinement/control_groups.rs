//! Control groups of nodes with limits: the kernel itself counts memory, processes and threads, and no
//! program gets past that. The agent looks at what programs have mapped, allows less, and says what it was.
//!
//! Where this user may make them (`man 7 cgroups`): in version 1 one for each controller below this process's
//! own, in version 2 one in the nearest above that hands the controllers on. Else there is none.

use crate::protocol::{NodeLimits, TASKS_MAX};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes and threads of a node: its agent allows less, has some itself, and needs time to look.
pub(crate) const TASKS: u64 = TASKS_MAX + 500;

/// Memory of a node beyond its limit: for its agent, and for programs until the agent has looked.
const MEMORY_MARGIN: u64 = 64 << 20;

/// A group has as much of the processor as all that is beside it, servers among them, which weighs 100: that
/// is what all clients of a usual run get together.
const CPU_WEIGHT: u64 = 20;

/// Groups are empty a moment after their processes have ended.
const EMPTY: (u32, Duration) = (50, Duration::from_millis(20));

#[derive(Default)]
pub(crate) struct NodeGroups {
    /// A process that writes `0` into these goes over to the groups.
    pub(crate) processes: Vec<OwnedFd>,
    pub(crate) memory: Option<MemoryEvents>,
}

/// A file in which the kernel says how many processes of a group it killed because memory ran out.
#[derive(Debug)]
pub(crate) struct MemoryEvents(File);

impl MemoryEvents {
    pub(crate) fn killed(&self) -> u64 {
        let mut text = [0; 1024];
        let length = self.0.read_at(&mut text, 0).unwrap_or(0);
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }
}

/// What groups in a folder limit: those of version 2, or those of one controller of version 1.
#[derive(Clone, Copy)]
enum Hierarchy {
    Second,
    Processes,
    Memory,
}

/// The memory that the kernel lets the programs of a node have, its files in memory and its agent included.
pub(crate) fn hard_memory(limits: NodeLimits) -> u64 {
    limits.memory_bytes.saturating_add(MEMORY_MARGIN)
}

/// Makes the groups of a node. `write_down` gets the folder of each before it is there.
pub(crate) fn make(
    name: &str,
    limits: NodeLimits,
    write_down: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> NodeGroups {
    let mut groups = NodeGroups::default();
    for (parent, hierarchy) in parents() {
        let folder = parent.join(format!("fencepost-{name}"));
        // One controller without the other is better than none.
        let _ = write_down(&folder).and_then(|()| fill(&folder, hierarchy, limits, &mut groups));
    }
    groups
}

fn fill(folder: &Path, hierarchy: Hierarchy, limits: NodeLimits, groups: &mut NodeGroups) -> io::Result<()> {
    std::fs::create_dir(folder)?;
    let set = |file: &str, number: u64| std::fs::write(folder.join(file), number.to_string());
    // The kernel makes the files that there are; which these are depends on it.
    let set_if_there =
        |file: &str, number| if folder.join(file).exists() { set(file, number) } else { Ok(()) };
    match hierarchy {
        Hierarchy::Processes => set("pids.max", TASKS)?,
        Hierarchy::Second => {
            set("pids.max", TASKS)?;
            set_if_there("cpu.weight", CPU_WEIGHT)?;
            set_if_there("memory.max", hard_memory(limits))?;
            set_if_there("memory.swap.max", 0)?;
            groups.memory = File::open(folder.join("memory.events")).ok().map(MemoryEvents);
        }
        Hierarchy::Memory => {
            set("memory.limit_in_bytes", hard_memory(limits))?;
            set_if_there("memory.memsw.limit_in_bytes", hard_memory(limits))?;
            set_if_there("memory.kmem.tcp.limit_in_bytes", limits.memory_bytes)?;
            groups.memory = File::open(folder.join("memory.oom_control")).ok().map(MemoryEvents);
        }
    }
    groups.processes.push(OpenOptions::new().write(true).open(folder.join("cgroup.procs"))?.into());
    Ok(())
}

fn parents() -> Vec<(PathBuf, Hierarchy)> {
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
    if let Some(folder) = second() {
        return vec![(folder, Hierarchy::Second)];
    }
    let first = |(controller, kind)| {
        let (mount, own) = hierarchy(&mounts, &own, Some(controller))?;
        // In a container the way to the own group may be that of the machine.
        Some((Some(below(&mount, &own)).filter(|folder| folder.is_dir()).unwrap_or(mount), kind))
    };
    [("pids", Hierarchy::Processes), ("memory", Hierarchy::Memory)].into_iter().filter_map(first).collect()
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
    fn a_group_has_its_limits_before_a_process_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        let limits = NodeLimits { memory_bytes: 100 << 20, disk_bytes: 0 };
        let made = |name: &str, hierarchy, file: &str| {
            let folder = place.path().join(name);
            let mut groups = NodeGroups::default();
            // Where the kernel makes no files, a group has none that takes processes.
            assert!(fill(&folder, hierarchy, limits, &mut groups).is_err() && groups.processes.is_empty());
            std::fs::read_to_string(folder.join(file)).unwrap()
        };
        assert_eq!(made("fencepost-a-c1", Hierarchy::Processes, "pids.max"), "5500");
        assert_eq!(made("fencepost-a-c2", Hierarchy::Second, "pids.max"), "5500");
        assert_eq!(made("fencepost-a-c3", Hierarchy::Memory, "memory.limit_in_bytes"), "171966464");
    }

    #[test]
    fn what_the_kernel_killed_is_read_in_both_versions() {
        let killed = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            MemoryEvents(file).killed()
        };
        assert_eq!(killed("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"), 2);
        assert_eq!(killed("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), 1);
        assert_eq!(killed(""), 0);
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
