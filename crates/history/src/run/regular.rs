//! Opens the files of a run's folder, which may come from elsewhere: a link could lead out of it, and a pipe in place of a file
//! would never end.

use nix::fcntl::OFlag;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. A link is not followed, and nothing is waited for.
///
/// # Errors
/// The file cannot be opened, is a link, or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let opened = File::options().read(true).custom_flags(flags.bits()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == nix::errno::Errno::ELOOP as i32 => io::Error::other("it is a link"),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// The text of a regular file; see [`open_regular`].
///
/// # Errors
/// Those of [`open_regular`], and text that is not UTF-8.
pub fn read_regular(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// The longest file of settings: a plan, a scenario, a `lock.toml`.
const SETTINGS_MAX: u64 = 16 << 20;

/// The text of a file that a user named, also of a pipe (`<(command)`). It ends even where the file does not.
///
/// # Errors
/// The file cannot be opened, is longer than [`SETTINGS_MAX`], or is not UTF-8.
pub fn read_settings(path: &Path) -> io::Result<String> {
    read_bounded(path, SETTINGS_MAX)
}

/// As [`read_settings`], for a file of at most so many bytes.
///
/// # Errors
/// The file cannot be opened, is longer, or is not UTF-8.
pub fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    match read as u64 > bytes_max {
        true => Err(io::Error::other(format!("it is longer than {} MiB", bytes_max >> 20))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read_settings(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "it is longer than 16 MiB");
        let (read, mut write) = io::pipe().unwrap();
        io::Write::write_all(&mut write, b"text").unwrap();
        drop(write);
        let pipe = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&read));
        assert_eq!(read_settings(Path::new(&pipe)).unwrap(), "text");
    }

    #[test]
    fn links_and_pipes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read_regular(&file).unwrap(), "text");
        assert_eq!(read_regular(&link).unwrap_err().to_string(), "it is a link");
        assert_eq!(read_regular(&pipe).unwrap_err().to_string(), "it is not a regular file");
        let missing = read_regular(&folder.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
