//! What a node's programs have mapped, and answers of the kernel not yet read, which no control group counts.

use nix::libc;

pub(super) fn uses_more(programs: &[i32], limit: u64) -> bool {
    let limit = limit.saturating_sub(unread());
    // The exact sum keeps a program from changing its memory meanwhile. Most clients are far below.
    sum(programs, resident) > limit && sum(programs, proportional) > limit
}

fn sum(programs: &[i32], of: fn(&str) -> Option<u64>) -> u64 {
    programs.iter().filter_map(|pid| of_program(*pid, of)).sum()
}

/// Of a program whose first thread has ended only the other threads know anything.
fn of_program(pid: i32, of: fn(&str) -> Option<u64>) -> Option<u64> {
    let known = |folder: &str| of(folder).filter(|bytes| *bytes > 0);
    known(&format!("/proc/{pid}")).or_else(|| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        threads.flatten().find_map(|thread| known(thread.path().to_str()?))
    })
}

fn resident(folder: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("{folder}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: it only asks for a constant of the system.
    let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page_size).ok()?)
}

/// The same, with each shared page divided among those that share it.
fn proportional(folder: &str) -> Option<u64> {
    // A thread that is not the first has no such sum.
    let text = std::fs::read_to_string(format!("{folder}/smaps_rollup"))
        .or_else(|_| std::fs::read_to_string(format!("{folder}/smaps")))
        .ok()?;
    Some(text.lines().filter_map(|line| kib(line.strip_prefix("Pss:")?)).sum())
}

/// The memory of the machine: what can still be had, and all, in bytes.
pub(super) fn machine_has() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let of = |name: &str| text.lines().find_map(|line| kib(line.strip_prefix(name)?));
    Some((of("MemAvailable:")?, of("MemTotal:")?))
}

/// What the kernel has sent over netlink sockets of this network and no program has read.
fn unread() -> u64 {
    queued(&std::fs::read_to_string("/proc/net/netlink").unwrap_or_default())
}

fn queued(table: &str) -> u64 {
    let bytes = |line: &str| line.split_whitespace().nth(4)?.parse::<u64>().ok();
    table.lines().skip(1).filter_map(bytes).sum()
}

fn kib(text: &str) -> Option<u64> {
    let kib: u64 = text.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_counted() {
        let me = i32::try_from(std::process::id()).unwrap();
        // Other tests of this process give memory back meanwhile.
        let grows = || {
            let before = of_program(me, resident).unwrap();
            let taken = vec![1_u8; 64 << 20];
            std::hint::black_box(&taken);
            (of_program(me, resident).unwrap() >= before + (48 << 20)).then_some(taken)
        };
        let taken = (0..50).find_map(|_| grows()).expect("memory that is taken is counted");
        assert!(of_program(me, proportional).is_none_or(|bytes| bytes >= 48 << 20));
        assert!(uses_more(&[me], 48 << 20), "{}", taken.len());
        assert!(!uses_more(&[me], 1 << 40));
    }

    #[test]
    fn the_memory_of_the_machine_is_read() {
        assert!(machine_has().is_none_or(|(available, total)| 0 < available && available < total));
    }

    #[test]
    fn what_no_program_has_read_is_counted() {
        let table = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n\
                     0000000000000000 0   4242       00000000 40000    0        0     2        0        77\n\
                     0000000000000000 0   4243       00000000 2304     0        0     2        0        78\n";
        assert_eq!(queued(table), 42304);
        assert_eq!(queued(""), 0);
    }
}
