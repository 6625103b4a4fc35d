//! Processes and mounts that keep the private folder of a killed run in use.

use crate::agent::processes;
use nix::errno::Errno;
use nix::libc;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const END: Duration = Duration::from_secs(5);

/// Kills the processes whose mounts lie in this folder, waits for their ends, and gives their numbers. Such
/// mounts exist in the nodes' own mount namespaces only; processes that share this one's belong to no node.
pub fn end_all_in(folder: &Path) -> Vec<i32> {
    let mut ended = Vec::new();
    let begun = Instant::now();
    loop {
        let found: Vec<i32> = processes().filter(|process| is_node_in(*process, folder)).collect();
        if found.is_empty() || begun.elapsed() > END {
            return ended;
        }
        for process in found {
            if kill_if(process, || is_node_in(process, folder)).is_ok() && !ended.contains(&process) {
                ended.push(process);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_node_in(process: i32, folder: &Path) -> bool {
    let mounts = std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    if mounts.is_none() || mounts == std::fs::read_link("/proc/self/ns/mnt").ok() {
        return false;
    }
    let text = std::fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    lies_in(&text, folder)
}

fn lies_in(mountinfo: &[u8], folder: &Path) -> bool {
    let mut below = folder.as_os_str().as_encoded_bytes().to_vec();
    below.push(b'/');
    mountinfo.windows(below.len()).any(|part| part == below)
}

/// Kills the process if it is still the one that is meant: its number may have become another's meanwhile.
fn kill_if(process: i32, is_meant: impl Fn() -> bool) -> io::Result<()> {
    // SAFETY: a call that takes numbers only; the descriptor that it makes is owned by nothing else.
    let opened = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    let opened = i32::try_from(opened).map_err(io::Error::other)?;
    // SAFETY: it was just made.
    let held = unsafe { OwnedFd::from_raw_fd(opened) };
    if !is_meant() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (fd, signal) = (held.as_raw_fd(), Signal::SIGKILL as i32);
    // SAFETY: the descriptor is open; no information goes with the signal.
    let sent = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, std::ptr::null::<libc::siginfo_t>(), 0)
    };
    Ok(Errno::result(sent).map(drop)?)
}

/// Removes the mounts in this folder in this process's own mount namespace, and gives their places.
pub(super) fn unmount_all_in(folder: &Path) -> Vec<PathBuf> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let places = text.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let mut places: Vec<PathBuf> = places.map(unescaped).filter(|place| place.starts_with(folder)).collect();
    // Those that were mounted later lie over the others.
    places.reverse();
    places.retain(|place| umount2(place, MntFlags::MNT_DETACH).is_ok());
    places
}

/// Blanks and some others are written as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((first, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_places_with_blanks() {
        assert_eq!(unescaped(br"/tmp/a\040b\c"), Path::new(r"/tmp/a b\c"));
    }
}
