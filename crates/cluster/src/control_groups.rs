//! Control groups of nodes with limits: in them the kernel itself counts memory and processes, and no program
//! gets past that. The agent looks at the same, earlier, and says what it was.
//!
//! A group is made where this user may make one (`man 7 cgroups`): in version 1 below this process's own, of
//! each of the two controllers, in version 2 in the nearest group above that hands both on. Elsewhere, as for
//! most users without rights, there is none, and the agent is alone.

use crate::protocol::{Limits, TASKS_MAX};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes and threads that a node can have at all: its agent allows less, has some itself, and needs time
/// to look.
pub(crate) const TASKS: u64 = TASKS_MAX + 500;

/// A group has as much of the processor as all that is beside it, servers among them, which weighs 100: that
/// is what all clients of a usual run get together.
const CPU_WEIGHT: u64 = 20;

/// Groups are empty a moment after their processes have ended.
const EMPTY: (u32, Duration) = (50, Duration::from_millis(20));

/// The groups of one node, open for its agent.
#[derive(Default)]
pub(crate) struct NodeGroups {
    /// A process that writes `0` into these goes over to the groups.
    pub(crate) processes: Vec<OwnedFd>,
    /// Where the kernel says how many processes it killed since memory ran out.
    pub(crate) events: Option<OwnedFd>,
}

/// A folder of a mounted hierarchy in which groups can be made.
struct Parent {
    folder: PathBuf,
    version: u8,
    controllers: &'static [&'static str],
}

/// Makes the groups of a node. `write_down` gets each folder before it is there.
pub(crate) fn make(
    name: &str,
    limits: Limits,
    write_down: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> NodeGroups {
    let mut groups = NodeGroups::default();
    for parent in parents() {
        let folder = parent.folder.join(format!("fencepost-{name}"));
        // Without one controller the other is as good.
        let _ = write_down(&folder).and_then(|()| parent.fill(&folder, limits, &mut groups));
    }
    groups
}

impl Parent {
    fn fill(&self, folder: &Path, limits: Limits, groups: &mut NodeGroups) -> io::Result<()> {
        std::fs::create_dir(folder)?;
        let set = |file: &str, number: u64| std::fs::write(folder.join(file), number.to_string());
        let open = |file: &str| OpenOptions::new().write(true).open(folder.join(file));
        for controller in self.controllers {
            match (*controller, self.version) {
                ("pids", _) => set("pids.max", TASKS)?,
                (_, 1) => {
                    set("memory.limit_in_bytes", hard(limits.memory_bytes))?;
                    let _ = set("memory.memsw.limit_in_bytes", hard(limits.memory_bytes));
                    groups.events = Some(File::open(folder.join("memory.oom_control"))?.into());
                }
                _ => {
                    set("memory.max", hard(limits.memory_bytes))?;
                    let _ = set("memory.swap.max", 0);
                    let _ = set("cpu.weight", CPU_WEIGHT);
                    groups.events = Some(File::open(folder.join("memory.events"))?.into());
                }
            }
        }
        groups.processes.push(open("cgroup.procs")?.into());
        Ok(())
    }
}

/// The memory that a node with such a limit can have at all.
pub(crate) fn hard(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8).saturating_add(64 << 20)
}

fn parents() -> Vec<Parent> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let is_offered = |folder: &Path| {
        let controllers = std::fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        ["memory", "pids"].iter().all(|name| controllers.split_whitespace().any(|one| one == *name))
    };
    let second = || {
        let (mount, own) = hierarchy(&mounts, &own, None)?;
        let folder = own.ancestors().map(|above| below(&mount, above)).find(|folder| is_offered(folder))?;
        Some(Parent { folder, version: 2, controllers: &["memory", "pids"] })
    };
    if let Some(parent) = second() {
        return vec![parent];
    }
    let first = |controllers: &'static [&'static str]| {
        let (mount, own) = hierarchy(&mounts, &own, Some(controllers[0]))?;
        // In a container the way to the own group may be that of the machine.
        let folder = Some(below(&mount, &own)).filter(|folder| folder.is_dir()).unwrap_or(mount);
        Some(Parent { folder, version: 1, controllers })
    };
    [first(&["pids"]), first(&["memory"])].into_iter().flatten().collect()
}

fn below(mount: &Path, group: &Path) -> PathBuf {
    mount.join(group.strip_prefix("/").unwrap_or(group))
}

/// Where the hierarchy of a controller of version 1, or without one that of version 2, is mounted, and the
/// group of this process in it.
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
    fn a_group_has_limits_before_a_process_is_in_it() {
        // Where the kernel makes no files, a group has none that takes processes.
        let limits = Limits { memory_bytes: 2 << 30, disk_bytes: 0 };
        let filled = |version, controllers| {
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().join("fencepost-a-c1");
            let parent = Parent { folder: place.path().to_owned(), version, controllers };
            let mut groups = NodeGroups::default();
            assert!(parent.fill(&folder, limits, &mut groups).is_err() && groups.processes.is_empty());
            let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
            (read("pids.max"), read("memory.limit_in_bytes"), read("memory.max"))
        };
        let (tasks, bytes) = (Some("5500".to_owned()), Some((2368_u64 << 20).to_string()));
        assert_eq!(filled(1, &["pids"]), (tasks.clone(), None, None));
        assert_eq!(filled(1, &["memory"]), (None, bytes.clone(), None));
        assert_eq!(filled(2, &["pids", "memory"]), (tasks, None, bytes));
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
