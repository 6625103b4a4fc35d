//! What a user's programs may use of a node: memory, programs and threads, and room on the disk.
//!
//! The agent looks from time to time, and ends all programs of a node that use more. Limits of the kernel would not do: a
//! limit of address space breaks programs that reserve much and use little (Java, Node.js, Go), and control groups are not
//! at hand under every driver.

use super::output::Out;
use crate::protocol::Limits;
use nix::libc;
use std::collections::HashSet;
use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program that takes memory as fast as it can takes some hundred megabytes meanwhile.
const LOOK: Duration = Duration::from_millis(100);

/// One look at the disk for so many looks at the memory.
const LOOKS_PER_DISK: u32 = 10;

/// More files than this, or open ones, are too many: a walk through all of them every second would keep the machine busy, and among
/// those that are not looked at could be a large one.
const FILES_MAX: usize = 20_000;

/// Programs and threads of a node. Runtimes start some dozens; a program that forks without end reaches every number, and
/// each takes one of the machine's process numbers.
const TASKS_MAX: u64 = 5000;

/// Watches the programs of this node, for ever.
pub(super) async fn keep(limits: Limits, data: String, out: Out) {
    // Elsewhere than in a node of its own the agent would end programs that are none of its business.
    if std::process::id() != 1 {
        return;
    }
    let end = |sentence: String| {
        out.note("agent", format!("{}{sentence}", crate::LIMIT_NOTE));
        end_all();
    };
    // Programs that fork without end multiply while the memory of thousands is added up: they are counted meanwhile.
    tokio::join!(watch_tasks(&end), watch_space(limits, data, &end));
}

async fn watch_tasks(end: &impl Fn(String)) {
    loop {
        tokio::time::sleep(LOOK).await;
        if others().count() as u64 > TASKS_MAX || sum(tasks) > TASKS_MAX {
            end(format!("started more than {TASKS_MAX} programs and threads"));
        }
    }
}

async fn watch_space(limits: Limits, data: String, end: &impl Fn(String)) {
    let places = [PathBuf::from(data), PathBuf::from("/tmp"), PathBuf::from("/dev/shm")];
    for look in 0_u32.. {
        tokio::time::sleep(LOOK).await;
        let places = places.clone();
        let looked = tokio::task::spawn_blocking(move || overuse(limits, look, &places));
        if let Ok(Some(sentence)) = looked.await {
            end(sentence);
        }
    }
}

/// What is used beyond the limits, in words.
fn overuse(limits: Limits, look: u32, places: &[PathBuf]) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    // Pages that processes share count once only in the second, slower sum.
    if sum(resident) > limits.memory_bytes && sum(proportional) > limits.memory_bytes {
        return Some(format!(
            "used more than {} MiB of memory, the limit of --client-memory",
            mib(limits.memory_bytes)
        ));
    }
    if !look.is_multiple_of(LOOKS_PER_DISK) {
        return None;
    }
    match disk_use(places, others()) {
        None => {
            Some(format!("has more than {FILES_MAX} files in its data folder, /tmp and /dev/shm, or open"))
        }
        Some(bytes) if bytes > limits.disk_bytes => {
            Some(format!("filled its disk: it wrote more than {} MiB", mib(limits.disk_bytes)))
        }
        Some(_) => None,
    }
}

/// The processes of this node but for the agent.
fn others() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| *pid != 1)
}

fn sum(of: fn(i32) -> Option<u64>) -> u64 {
    others().filter_map(of).sum()
}

/// Bytes of a process that lie in memory.
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
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

/// The threads of a process.
fn tasks(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    text.rsplit_once(") ")?.1.split(' ').nth(17)?.parse().ok()
}

/// Bytes that files take: those below these folders, and those of them whose names were removed while a program has them open. None:
/// there are more than can be looked at.
fn disk_use(folders: &[PathBuf], programs: impl Iterator<Item = i32>) -> Option<u64> {
    let (mut bytes, mut files) = (0, 0);
    let mut open: Vec<PathBuf> = folders.to_vec();
    while let Some(folder) = open.pop() {
        for entry in entries(&folder) {
            files += 1;
            if files > FILES_MAX {
                return None;
            }
            let Ok(found) = entry.metadata() else { continue };
            bytes += found.blocks() * 512;
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
    let mut counted = HashSet::new();
    for descriptor in programs.flat_map(|pid| entries(Path::new(&format!("/proc/{pid}/fd")))) {
        files += 1;
        if files > FILES_MAX {
            return None;
        }
        let Some(file) = removed(&descriptor.path(), folders) else { continue };
        if counted.insert((file.dev(), file.ino())) {
            bytes += file.blocks() * 512;
        }
    }
    Some(bytes)
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten()
}

/// The file that a program has open, if it lay below one of these folders, and has no name any more.
fn removed(descriptor: &Path, folders: &[PathBuf]) -> Option<Metadata> {
    let name = std::fs::read_link(descriptor).ok()?;
    let lay_there = folders.iter().any(|folder| name.starts_with(folder));
    if !lay_there || !name.to_string_lossy().ends_with(" (deleted)") {
        return None;
    }
    let file = std::fs::metadata(descriptor).ok()?;
    (file.is_file() && file.nlink() == 0).then_some(file)
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
    fn memory_threads_and_disk_are_counted() {
        let me = i32::try_from(std::process::id()).unwrap();
        let before = resident(me).unwrap();
        let taken = vec![1_u8; 64 << 20];
        assert!(resident(me).unwrap() >= before + (48 << 20), "{}", taken.len());
        assert!(proportional(me).is_none_or(|bytes| bytes >= 48 << 20));
        assert!(tasks(me).unwrap() >= 2, "the test has a thread of its own");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        std::fs::write(folder.path().join("below/file"), vec![1; 3 << 20]).unwrap();
        let used = disk_use(&[folder.path().to_owned(), "/nowhere".into()], std::iter::empty()).unwrap();
        assert!((3 << 20..4 << 20).contains(&used), "{used}");
    }

    #[test]
    fn a_file_that_is_open_without_a_name_is_counted_once() {
        use std::io::Write;
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let removed = |at: &Path| {
            let mut file = std::fs::File::create(at.join("file")).unwrap();
            file.write_all(&vec![1; 3 << 20]).unwrap();
            std::fs::remove_file(at.join("file")).unwrap();
            file
        };
        let open = removed(folder.path());
        let (_again, _other) = (open.try_clone().unwrap(), removed(elsewhere.path()));
        let me = i32::try_from(std::process::id()).unwrap();
        let used = || disk_use(&[folder.path().to_owned()], std::iter::once(me)).unwrap();
        assert!((3 << 20..4 << 20).contains(&used()), "{}", used());
    }

    #[test]
    fn more_files_than_can_be_looked_at_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        std::fs::create_dir(&below).unwrap();
        // With the folder that they are in.
        for number in 1..FILES_MAX {
            std::fs::File::create(below.join(number.to_string())).unwrap();
        }
        let folders = [folder.path().to_owned()];
        assert!(disk_use(&folders, std::iter::empty()).is_some());
        std::fs::File::create(below.join("one-more")).unwrap();
        assert_eq!(disk_use(&folders, std::iter::empty()), None);
        let limits = Limits { memory_bytes: u64::MAX, disk_bytes: u64::MAX };
        let sentence = overuse(limits, 0, &folders).unwrap();
        assert!(sentence.starts_with("has more than 20000 files"), "{sentence}");
    }
}
