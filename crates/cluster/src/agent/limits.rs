//! What a user's programs may use of a node: memory, programs and threads, and room on the disk.
//!
//! The agent looks from time to time, and ends all programs of a node that use more. Where the node has a
//! control group ([`control_groups`](crate::control_groups)), the kernel lets it have few more processes than
//! that. Limits of the kernel would not do for memory: a limit of address space breaks programs that reserve
//! much and use little (Java, Node.js, Go), and in a control group the kernel kills without saying why.

use super::disk_use::{DiskUse, FILES_MAX, disk_use, places};
use super::memory_use::{of_own_control_group, uses_more};
use super::output::Out;
use crate::protocol::{NodeLimits, TASKS_MAX};
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::time::Duration;

/// A program that takes memory as fast as it can takes some hundred megabytes meanwhile.
const LOOK: Duration = Duration::from_millis(100);

const LOOKS_PER_DISK: u32 = 10;

/// How long all programs stand still before they are killed, so that the reason is on its way before their
/// streams close, however many they are.
const NOTE: Duration = Duration::from_millis(100);

pub(super) async fn keep(limits: NodeLimits, data: String, own_control_group: bool, out: Out) {
    // Elsewhere than in a node of its own the agent would end programs that are none of its business.
    if std::process::id() != 1 {
        return;
    }
    let end = move |sentence: String| {
        signal_all(Signal::SIGSTOP);
        out.note("agent", format!("{}{sentence}", crate::LIMIT_NOTE));
        std::thread::sleep(NOTE);
        signal_all(Signal::SIGKILL);
    };
    let of_tasks = end.clone();
    // Programs that fork without end multiply while memory is added up: another thread counts them.
    std::thread::spawn(move || watch_tasks(&of_tasks));
    watch_space(limits, &data, own_control_group, &end).await;
}

fn watch_tasks(end: &impl Fn(String)) {
    loop {
        std::thread::sleep(LOOK);
        if others().count() as u64 > TASKS_MAX || sum(tasks) > TASKS_MAX {
            end(format!("started more than {TASKS_MAX} programs and threads"));
        }
    }
}

async fn watch_space(
    limits: NodeLimits,
    data: &str,
    own_control_group: bool,
    end: &(impl Fn(String) + Clone + Send + 'static),
) {
    for look in 0_u32.. {
        tokio::time::sleep(LOOK).await;
        let places = look.is_multiple_of(LOOKS_PER_DISK).then(|| places(data));
        let end = end.clone();
        let looked = tokio::task::spawn_blocking(move || {
            overuse(limits, places, own_control_group).into_iter().for_each(end);
        });
        let _ = looked.await;
    }
}

/// Use beyond the limits, in words. With `places` the look is slow: at the disk, and at unmapped memory.
fn overuse(limits: NodeLimits, places: Option<Vec<PathBuf>>, own_control_group: bool) -> Option<String> {
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
        return Some(too_much_memory(limits));
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
            Some(format!("filled its disk: it wrote more than {} MiB", limits.disk_bytes >> 20))
        }
        DiskUse::Bytes(_) => None,
    }
}

fn too_much_memory(limits: NodeLimits) -> String {
    format!("used more than {} MiB of memory, the limit of --client-memory", limits.memory_bytes >> 20)
}

pub(super) fn others() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| *pid != 1)
}

fn sum(of: fn(i32) -> Option<u64>) -> u64 {
    others().filter_map(of).sum()
}

fn tasks(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    text.rsplit_once(") ")?.1.split(' ').nth(17)?.parse().ok()
}

/// To process 1, "all" are those of its node but itself: at once, so that none starts another meanwhile.
fn signal_all(signal: Signal) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), signal);
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
        let limits = NodeLimits { memory_bytes: u64::MAX, disk_bytes: u64::MAX };
        let sentence = overuse(limits, Some(vec![folder.path().to_owned()]), false).unwrap();
        assert!(sentence.starts_with("has more than 20000 files"), "{sentence}");
        assert_eq!(overuse(limits, None, false), None);
    }
}
