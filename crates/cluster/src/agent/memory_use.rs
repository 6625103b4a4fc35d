//! The memory that the programs of a node hold: their pages, and what the kernel keeps for them unmapped.

use super::socket_memory::socket_memory;
use nix::libc;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

/// Whether these programs hold more than this. A `slow` look also counts what is outside of their pages.
pub(super) fn uses_more(programs: &[i32], limit: u64, slow: bool) -> bool {
    let unmapped = if slow { Unmapped::of(programs) } else { Unmapped::default() };
    let most = sum(programs, resident) + unmapped.bytes();
    // The exact sum keeps a program from changing its memory meanwhile. Most clients are far below.
    most > limit && sum(programs, proportional) + unmapped.bytes() - unmapped.mapped_by(programs) > limit
}

/// Memory that has an owner in the kernel: a program may have it mapped, or not.
#[derive(Default)]
struct Unmapped {
    /// Segments of System V, by number, with their bytes in memory and in swap.
    segments: HashMap<u64, u64>,
    /// Files that lie in memory and have never had a name, by number.
    files: HashMap<u64, u64>,
    /// What was sent to sockets and to queues of messages, and not read.
    unread: u64,
}

impl Unmapped {
    fn of(programs: &[i32]) -> Unmapped {
        let mut files = HashMap::new();
        for pid in programs {
            let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            for entry in entries {
                let is_one = std::fs::read_link(entry.path())
                    .is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:"));
                if let Some(file) = is_one.then(|| std::fs::metadata(entry.path()).ok()).flatten() {
                    files.insert(file.ino(), file.blocks() * 512);
                }
            }
        }
        let table = |name| std::fs::read_to_string(format!("/proc/sysvipc/{name}")).unwrap_or_default();
        let messages: u64 = table("msg").lines().skip(1).filter_map(queue).sum();
        let segments = table("shm").lines().skip(1).filter_map(segment).collect();
        Unmapped { segments, files, unread: socket_memory() + messages }
    }

    fn bytes(&self) -> u64 {
        self.segments.values().sum::<u64>() + self.files.values().sum::<u64>() + self.unread
    }

    /// As much of it as programs have mapped: their own pages count it already.
    fn mapped_by(&self, programs: &[i32]) -> u64 {
        if self.segments.is_empty() && self.files.is_empty() {
            return 0;
        }
        programs.iter().map(|pid| self.mapped_in(&smaps(*pid))).sum::<u64>().min(self.bytes())
    }

    /// The shares of these mappings in /proc/<pid>/smaps that belong to it.
    fn mapped_in(&self, smaps: &str) -> u64 {
        let (mut is_one, mut bytes) = (false, 0);
        for line in smaps.lines() {
            if let Some(share) = line.strip_prefix("Pss:") {
                bytes += if is_one { kib(share).unwrap_or(0) } else { 0 };
            } else if line.split_whitespace().next().is_some_and(|word| word.contains('-')) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let inode = fields.get(4).and_then(|inode| inode.parse().ok()).unwrap_or(0);
                is_one = match fields.get(5) {
                    Some(name) if name.starts_with("/memfd:") => self.files.contains_key(&inode),
                    Some(name) if name.starts_with("/SYSV") => self.segments.contains_key(&inode),
                    _ => false,
                };
            }
        }
        bytes
    }
}

/// The number of a segment, and its bytes, in a line of /proc/sysvipc/shm.
fn segment(line: &str) -> Option<(u64, u64)> {
    let fields = numbers(line);
    Some((*fields.get(1)?, fields.get(14)? + fields.get(15)?))
}

/// The bytes in a queue of messages, in a line of /proc/sysvipc/msg.
fn queue(line: &str) -> Option<u64> {
    numbers(line).get(3).copied()
}

fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect()
}

fn smaps(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default()
}

fn sum(programs: &[i32], of: fn(i32) -> Option<u64>) -> u64 {
    programs.iter().filter_map(|pid| of(*pid)).sum()
}

fn resident(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: it only asks for a constant of the system.
    let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page_size).ok()?)
}

/// The same, with each shared page divided among those that share it.
fn proportional(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    kib(text.lines().find_map(|line| line.strip_prefix("Pss:"))?)
}

fn kib(text: &str) -> Option<u64> {
    let kib: u64 = text.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

/// What the kernel counts for this node's control group (version 2), but for copies of files on a disk, which
/// it gives up where memory is short, and for what the agent itself takes; none where there is no such group.
/// Files in a file system in memory count.
pub(super) fn of_own_control_group() -> Option<u64> {
    // The root of all groups has no such file.
    std::fs::metadata("/sys/fs/cgroup/memory.current").ok()?;
    let held = held(&std::fs::read_to_string("/sys/fs/cgroup/memory.stat").ok()?);
    Some(held.saturating_sub(resident(1).unwrap_or(0)))
}

fn held(stat: &str) -> u64 {
    const KEPT: [&str; 8] =
        ["anon", "shmem", "sock", "kernel_stack", "pagetables", "percpu", "vmalloc", "slab_unreclaimable"];
    let of = |line: &str| {
        let (name, bytes) = line.split_once(' ')?;
        KEPT.contains(&name).then(|| bytes.trim().parse::<u64>().ok()).flatten()
    };
    stat.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_counted() {
        let me = i32::try_from(std::process::id()).unwrap();
        // Other tests of this process give memory back meanwhile.
        let grows = || {
            let before = resident(me).unwrap();
            let taken = vec![1_u8; 64 << 20];
            std::hint::black_box(&taken);
            (resident(me).unwrap() >= before + (48 << 20)).then_some(taken)
        };
        let taken = (0..50).find_map(|_| grows()).expect("memory that is taken is counted");
        assert!(proportional(me).is_none_or(|bytes| bytes >= 48 << 20));
        assert!(uses_more(&[me], 48 << 20, true), "{}", taken.len());
        assert!(!uses_more(&[me], 1 << 40, true));
    }

    #[test]
    fn a_file_in_memory_that_no_program_has_mapped_is_counted_and_a_mapped_one_only_once() {
        let me = i32::try_from(std::process::id()).unwrap();
        let file = nix::sys::memfd::memfd_create(c"held", nix::sys::memfd::MFdFlags::empty()).unwrap();
        let mut file = std::fs::File::from(file);
        std::io::Write::write_all(&mut file, &vec![1; 32 << 20]).unwrap();
        let inode = file.metadata().unwrap().ino();
        let unmapped = Unmapped::of(&[me]);
        assert_eq!(unmapped.files.get(&inode), Some(&(32 << 20)));
        let smaps = format!(
            "7f00-7f01 rw-s 00000000 00:01 {inode}   /memfd:held (deleted)\nRss: 99 kB\nPss:  8192 kB\n\
             7f02-7f03 rw-p 00000000 00:00 0\nPss:  4096 kB\n"
        );
        assert_eq!(unmapped.mapped_in(&smaps), 8 << 20);
    }

    #[test]
    fn segments_and_control_groups_are_read() {
        let line = "0 32769 1600 8388608 99 0 0 0 0 0 0 1 0 1 4194304 1048576";
        assert_eq!(segment(line), Some((32769, 5 << 20)));
        assert_eq!(segment("       key      shmid perms"), None);
        assert_eq!(queue("0 3 600 16384 1 9 0 0 0 0 0 1 0 0"), Some(16384));
        let stat = "anon 100\nfile 5000\nshmem 20\nsock 3\nslab_reclaimable 900\nslab_unreclaimable 4\n";
        assert_eq!(held(stat), 127);
    }
}
