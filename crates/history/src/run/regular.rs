//! Opens files of a run's folder from elsewhere: a link could lead out of it, and a pipe would never end.

use crate::files::bounded::{FILE_BYTES_MAX, SETTINGS_BYTES_MAX, read_text, too_long};
use nix::fcntl::OFlag;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading; anything else, also a link, is an error. Nothing is waited for.
pub fn open_regular(path: &Path) -> io::Result<File> {
    regular(path, File::options().read(true))
}

/// Opens a regular file to append to it, as [`open_regular`]; where it is missing, it is made.
pub fn append_regular(path: &Path) -> io::Result<File> {
    regular(path, File::options().append(true).create(true))
}

fn regular(path: &Path, options: &mut std::fs::OpenOptions) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let opened = options.custom_flags(flags.bits()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == nix::errno::Errno::ELOOP as i32 => io::Error::other("it is a link"),
        // A pipe without a reader, and a socket.
        Some(code) if code == nix::errno::Errno::ENXIO as i32 => io::Error::other(NOT_REGULAR),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(NOT_REGULAR)),
    }
}

const NOT_REGULAR: &str = "it is not a regular file";

/// Opens a folder, to lock it or to look below it. All else is an error: a pipe would be waited for.
pub fn open_folder(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlag::O_DIRECTORY.bits()).open(path)
}

/// The text of a file of a run or a campaign. Errors: [`open_regular`]'s, too long, or not UTF-8.
pub fn read_regular(path: &Path) -> io::Result<String> {
    read_opened(open_regular(path)?, FILE_BYTES_MAX)
}

/// The last bytes of a regular file, as far as they are text. Errors: those of [`open_regular`].
pub fn read_end(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut file = open_regular(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a file that a user named, or of a pipe. Errors: unreadable, too long, or not UTF-8.
pub fn read_settings(path: &Path) -> io::Result<String> {
    read_bounded(path, SETTINGS_BYTES_MAX)
}

/// As [`read_settings`], for a file of at most `bytes_max` bytes.
pub fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<String> {
    read_opened(File::open(path)?, bytes_max)
}

fn read_opened(file: File, bytes_max: u64) -> io::Result<String> {
    // A file that says itself that it is longer costs nothing, however much of it is a hole.
    match file.metadata()?.len() > bytes_max {
        true => Err(too_long("it", bytes_max)),
        false => read_text(file, bytes_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read_settings(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.starts_with("it is longer than 16 MiB, which is the limit: "), "{error}");
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
        assert_eq!(append_regular(&pipe).unwrap_err().to_string(), "it is not a regular file");
        assert!(append_regular(&file).is_ok());
        // A pipe that was waited for would hold the test for ever.
        assert!(
            open_folder(&pipe).is_err() && open_folder(&file).is_err() && open_folder(folder.path()).is_ok()
        );
    }

    #[test]
    fn a_file_with_a_hole_of_many_gigabytes_is_refused_and_its_end_can_be_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(40 << 30).unwrap();
        let error = read_regular(file.path()).unwrap_err().to_string();
        assert!(error.starts_with("it is longer than 64 MiB, which is the limit: "), "{error}");
        assert!(crate::is_too_long(&read_settings(file.path()).unwrap_err()));
        assert_eq!(read_end(file.path(), 3).unwrap(), "\0\0\0");
        std::fs::write(file.path(), "12345").unwrap();
        assert_eq!(read_end(file.path(), 3).unwrap(), "345");
        assert_eq!(read_end(file.path(), 9).unwrap(), "12345");
    }
}
