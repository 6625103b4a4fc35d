use super::RunError;
use crate::{compress, compressed_name};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::error::Error;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A longer history is compressed at the end; most runs stay text for `grep` and `jq` (500,000 events).
pub const COMPRESS_ABOVE_BYTES: u64 = 64 << 20;

/// Lets a write fail where files may not grow further (`ulimit -f`): the signal would end the program before
/// its verdict. By a handler, since programs that are started would inherit that it is ignored.
pub fn fail_writes_beyond_limits() {
    extern "C" fn nothing(_: i32) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &action) };
}

pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), RunError> {
    write_whole_by(path, |mut file| file.write_all(content))
}

/// Writes a file whole or not at all, in pieces: under another name first, then renamed. A link stays a link.
/// What is no regular file (a device, a pipe, `/dev/stdout`) cannot be replaced, and is written to as it is.
pub fn write_whole_by<E>(path: &Path, write: impl FnOnce(&File) -> Result<(), E>) -> Result<(), RunError>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let written = match target(path) {
        Target::File(file) => replace(&file, write),
        Target::Stream => {
            open_stream(path).map_err(Into::into).and_then(|file| write(&file).map_err(Into::into))
        }
    };
    written.map_err(|source| RunError::Write { path: path.to_owned(), source })
}

/// Opens what is no file to be replaced. Standard output and error are written to from where they stand:
/// opened again, a file to which the shell redirected them would be written from its beginning.
fn open_stream(path: &Path) -> io::Result<File> {
    let is = |number: u8, name: &str| {
        let names = [format!("/dev/{name}"), format!("/dev/fd/{number}"), format!("/proc/self/fd/{number}")];
        names.iter().any(|own| path == Path::new(own))
    };
    if is(1, "stdout") {
        io::stdout().flush()?;
        return io::stdout().as_fd().try_clone_to_owned().map(File::from);
    }
    if is(2, "stderr") {
        return io::stderr().as_fd().try_clone_to_owned().map(File::from);
    }
    File::options().write(true).open(path)
}

/// Writes a file whole or not at all, in a foreign folder: no link is followed.
pub fn write_inside(folder: &Path, name: &str, content: &[u8]) -> Result<(), RunError> {
    write_inside_by(folder, name, |mut file| file.write_all(content))
}

pub fn write_inside_by<E>(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&File) -> Result<(), E>,
) -> Result<(), RunError>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let path = folder.join(name);
    let mut between = path.ancestors().skip(1).take_while(|it| *it != folder);
    let written = match between.find(|it| it.is_symlink()) {
        Some(link) => Err(format!("{} is a link", link.display()).into()),
        None => replace(&path, write),
    };
    written.map_err(|source| RunError::Write { path, source })
}

enum Target {
    /// A regular file or none yet, with all links followed.
    File(PathBuf),
    /// A device, a pipe, a socket, or an open file of a process.
    Stream,
}

fn target(path: &Path) -> Target {
    let Ok(found) = fs::canonicalize(path) else {
        // Nothing there yet, or a link to nothing.
        let linked = fs::read_link(path).map(|to| path.parent().unwrap_or(Path::new("")).join(to));
        return match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => Target::Stream,
            _ => Target::File(linked.unwrap_or_else(|_| path.to_owned())),
        };
    };
    // `/dev/stdout` may lead to a regular file, which the shell has open: it is written to, not replaced.
    let of_process = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    if of_process || fs::metadata(&found).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return Target::Stream;
    }
    Target::File(found)
}

/// Writes a file beside this one, and renames it. The name is drawn: no writers meet, no link is followed.
fn replace<E>(
    path: &Path,
    write: impl FnOnce(&File) -> Result<(), E>,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let partial = tempfile::Builder::new()
        .prefix(".")
        .suffix(".partial")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        // The error of the file system, without the drawn name.
        .map_err(|error| error.raw_os_error().map_or(error, std::io::Error::from_raw_os_error))?;
    write(partial.as_file()).map_err(Into::into)?;
    partial.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Compresses the history of a run that has ended if it is larger than `above_bytes`, and says whether it
/// did. The plain file is removed only when the compressed one is whole and on the disk.
pub fn compress_history(history: &Path, above_bytes: u64) -> Result<bool, RunError> {
    let unreadable = |source| RunError::Read { path: history.to_owned(), source };
    let mut plain = File::open(history).map_err(unreadable)?;
    if plain.metadata().map_err(unreadable)?.len() <= above_bytes {
        return Ok(false);
    }
    write_whole_by(&compressed_name(history), |file| {
        compress(&mut plain, BufWriter::new(file))?;
        file.sync_all()
    })?;
    // The rename has to be on the disk, too, before the only other copy is removed.
    let folder = history.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .and_then(|()| fs::remove_file(history))
        .map_err(|source| RunError::Write { path: history.to_owned(), source: source.into() })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_large_history_is_compressed_and_a_small_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("history.jsonl");
        let text = "{\"index\":0}\n".repeat(10_000);
        fs::write(&history, &text).unwrap();
        assert!(!compress_history(&history, text.len() as u64).unwrap());
        assert!(history.is_file() && !compressed_name(&history).exists());
        assert!(compress_history(&history, text.len() as u64 - 1).unwrap());
        assert!(!history.exists());
        let compressed = File::open(compressed_name(&history)).unwrap();
        let mut read = String::new();
        crate::decompressed(compressed).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
    }

    #[test]
    fn a_failed_write_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let failed = write_whole_by(&path, |mut file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no space left"))
        });
        let error = failed.unwrap_err();
        assert!(error.to_string().ends_with("out.csv"), "{error}");
        assert_eq!(error.source().unwrap().to_string(), "no space left");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("report.html"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("report.html", &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let dangling = folder.path().join("dangling");
        std::os::unix::fs::symlink("later.html", &dangling).unwrap();
        write_whole(&dangling, b"first").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("later.html")).unwrap(), "first");
    }

    #[test]
    fn nothing_in_a_folder_leads_a_writer_out_of_it() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        let [link, pipe, plots] = ["link", "pipe", "plots"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        std::os::unix::fs::symlink(outside.path(), &plots).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for name in ["link", "pipe"] {
            write_inside(folder.path(), name, b"new").unwrap();
            assert!(fs::symlink_metadata(folder.path().join(name)).unwrap().is_file());
        }
        let error = write_inside(folder.path(), "plots/timeline.svg", b"new").unwrap_err();
        assert!(error.source().unwrap().to_string().ends_with("plots is a link"));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_is_written_to_and_stays_a_pipe() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let read = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write_whole(&pipe, b"through").unwrap();
        assert_eq!(read.join().unwrap(), "through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        write_whole(Path::new("/dev/null"), b"gone").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn two_writers_of_one_file_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verdict.json");
        let (one, other) = ("1".repeat(100_000), "2".repeat(100_000));
        std::thread::scope(|threads| {
            for text in [&one, &other, &one, &other] {
                threads.spawn(|| (0..50).for_each(|_| write_whole(&path, text.as_bytes()).unwrap()));
            }
        });
        let read = fs::read_to_string(&path).unwrap();
        assert!(read == one || read == other);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
