//! Another user than root, in nodes that have none: a user without rights can give a node one user alone.

use nix::libc;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The user by which servers run that refuse root.
const OTHER: u32 = 65534;

pub(crate) fn has_other_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(has_other)
}

/// Whether a line of the map (first user inside, first user outside, how many) has it.
fn has_other(line: &str) -> bool {
    let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    matches!(numbers[..], [first, _, count] if (first..first.saturating_add(count)).contains(&OTHER))
}

/// Runs a command in a user namespace whose one user is [`OTHER`]. Only before it is confined.
pub(crate) fn become_other(command: &mut Command) {
    let maps: [(&'static std::ffi::CStr, Vec<u8>); 3] = [
        (c"/proc/self/setgroups", b"deny".to_vec()),
        (c"/proc/self/uid_map", format!("{OTHER} 0 1").into_bytes()),
        (c"/proc/self/gid_map", format!("{OTHER} 0 1").into_bytes()),
    ];
    let enter = move || {
        // SAFETY: system calls only between fork and exec; paths end in a zero byte, lengths are true.
        let entered = unsafe {
            libc::unshare(libc::CLONE_NEWUSER) == 0
                && maps.iter().all(|(path, text)| {
                    let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                    let length = libc::write(file, text.as_ptr().cast(), text.len());
                    libc::close(file);
                    usize::try_from(length) == Ok(text.len())
                })
        };
        if entered { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(enter) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_one_user_has_no_other() {
        assert!(has_other("         0          0 4294967295"));
        assert!(has_other("0 100000 65536") && !has_other("0 100000 65534"));
        assert!(!has_other("0 1000 1") && !has_other(""));
    }
}
