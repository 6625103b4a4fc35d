//! What a user's programs may use of a node: memory, programs and threads, and room on the disk.
//!
//! The agent looks from time to time, and ends all programs of a node that use more. Limits of the kernel
//! would not do: a limit of address space breaks programs that reserve much and use little (Java, Node.js,
//! Go), and a control group of its own a node has only under some engines.

use super::disk_use::{DiskUse, FILES_MAX, disk_use, places};
use super::memory_use::{of_own_control_group, uses_more};
use super::output::Out;
use crate::protocol::Limits;
use std::path::PathBuf;
use std::time::Duration;

/// A program that takes memory as fast as it can takes some hundred megabytes meanwhile.
const LOOK: Duration = Duration::from_millis(100);

/// One look at the disk for so many looks at the memory.
const LOOKS_PER_DISK: u32 = 10;

/// Programs and threads of a node. Runtimes start some dozens; a program that forks without end reaches every
/// number, and each takes one of the machine's process numbers.
const TASKS_MAX: u64 = 5000;

/// Watches the programs of this node, for ever.
pub(super) async fn keep(limits: Limits, data: String, own_control_group: bool, out: Out) {
    // Elsewhere than in a node of its own the agent would end programs that are none of its business.
    if std::process::id() != 1 {
        return;
    }
    let end = |sentence: String| {
        out.note("agent", format!("{}{sentence}", crate::LIMIT_NOTE));
        end_all();
    };
    // Programs that fork without end multiply while the memory of thousands is added up: they are counted
    // meanwhile.
    tokio::join!(watch_tasks(&end), watch_space(limits, &data, own_control_group, &end));
}

async fn watch_tasks(end: &impl Fn(String)) {
    loop {
        tokio::time::sleep(LOOK).await;
        if others().count() as u64 > TASKS_MAX || sum(tasks) > TASKS_MAX {
            end(format!("started more than {TASKS_MAX} programs and threads"));
        }
    }
}

async fn watch_space(limits: Limits, data: &str, own_control_group: bool, end: &impl Fn(String)) {
    for look in 0_u32.. {
        tokio::time::sleep(LOOK).await;
        let places = look.is_multiple_of(LOOKS_PER_DISK).then(|| places(data));
        let looked = tokio::task::spawn_blocking(move || overuse(limits, places, own_control_group));
        if let Ok(Some(sentence)) = looked.await {
            end(sentence);
        }
    }
}

/// What is used beyond the limits, in words. With the `places` of files it is a slow look: at the disk, and
/// at memory that no program need have mapped.
fn overuse(limits: Limits, places: Option<Vec<PathBuf>>, own_control_group: bool) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    let is_slow_look = places.is_some();
    let programs: Vec<i32> = others().collect();
    // Some engines leave a file system in memory among the kernel's own folders open for writing.
    let (of_kernel, places): (Vec<PathBuf>, Vec<PathBuf>) =
        places.unwrap_or_default().into_iter().partition(|place| place.starts_with("/sys"));
    let kept = disk_use(&of_kernel, std::iter::empty()).bytes();
    let outside = || own_control_group.then(of_own_control_group).flatten().unwrap_or(0);
    if uses_more(&programs, limits.memory_bytes.saturating_sub(kept), is_slow_look)
        || (is_slow_look && outside() > limits.memory_bytes)
    {
        return Some(format!(
            "used more than {} MiB of memory, the limit of --client-memory",
            mib(limits.memory_bytes)
        ));
    }
    if !is_slow_look {
        return None;
    }
    match disk_use(&places, programs.into_iter()) {
        DiskUse::TooMany => {
            Some(format!("has more than {FILES_MAX} files in its data folder, /tmp and /dev/shm, or open"))
        }
        DiskUse::Hidden(folder) => {
            Some(format!("has a folder that cannot be looked into, below {}", folder.display()))
        }
        DiskUse::Bytes(bytes) if bytes > limits.disk_bytes => {
            Some(format!("filled its disk: it wrote more than {} MiB", mib(limits.disk_bytes)))
        }
        DiskUse::Bytes(_) => None,
    }
}

/// The processes of this node but for the agent.
pub(super) fn others() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| *pid != 1)
}

fn sum(of: fn(i32) -> Option<u64>) -> u64 {
    others().filter_map(of).sum()
}

/// The threads of a process.
fn tasks(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    text.rsplit_once(") ")?.1.split(' ').nth(17)?.parse().ok()
}

/// Ends all programs of this node at once, so that none of them starts another meanwhile.
fn end_all() {
    // To the first process of a node, the agent, "all" are those of the node, but for itself.
    let all = nix::unistd::Pid::from_raw(-1);
    let _ = nix::sys::signal::kill(all, nix::sys::signal::Signal::SIGKILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(tasks(me).unwrap() >= 2, "the test has a thread of its own");
    }

    #[test]
    fn what_is_too_much_is_said() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=FILES_MAX {
            std::fs::File::create(folder.path().join(number.to_string())).unwrap();
        }
        let limits = Limits { memory_bytes: u64::MAX, disk_bytes: u64::MAX };
        let sentence = overuse(limits, Some(vec![folder.path().to_owned()]), false).unwrap();
        assert!(sentence.starts_with("has more than 20000 files"), "{sentence}");
        assert_eq!(overuse(limits, None, false), None);
    }
}
