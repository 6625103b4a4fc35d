//! Files inside the results folder, and nothing outside of it.

use fencepost_history::run::{open_folder, open_regular};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// The file or folder of that path below the results folder; links are followed. None if it is not there.
pub fn inside(results: &Path, path: &str) -> Option<PathBuf> {
    if !is_plain(path) {
        return None;
    }
    let found = fs::canonicalize(results.join(path)).ok()?;
    found.starts_with(fs::canonicalize(results).ok()?).then_some(found)
}

/// Whether it names something, by names alone.
fn is_plain(path: &str) -> bool {
    let plain = |part: Component| matches!(part, Component::Normal(_));
    !path.is_empty() && !path.contains('\0') && Path::new(path).components().all(plain)
}

/// Opens a regular file below the results folder. The kernel checks the path as it opens, so no link can come
/// in between. Links are followed below the folder; absolute ones are refused. None if there is no such file.
pub fn open_beneath(results: &Path, path: &str) -> Option<fs::File> {
    if !is_plain(path) {
        return None;
    }
    // Without O_NONBLOCK a pipe would be waited for.
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let file = match openat2(open_folder(results).ok()?, path, how) {
        Ok(opened) => fs::File::from(opened),
        // Kernels before 5.6 do not have this call, and old filters of system calls refuse it.
        Err(Errno::ENOSYS | Errno::EPERM) => open_regular(&inside(results, path)?).ok()?,
        Err(_) => return None,
    };
    file.metadata().ok()?.is_file().then_some(file)
}

#[derive(Default)]
pub struct Listing {
    pub files: Vec<File>,
    /// Whether there are more than are listed.
    pub more: bool,
}

pub struct File {
    pub path: String,
    pub bytes: u64,
}

const FILES_MAX: usize = 1000;

const DEPTH_MAX: usize = 4;

/// The files of a run, by name. Links are left out.
pub fn files(run: &Path) -> Listing {
    let mut listing = Listing::default();
    list(run, "", 0, &mut listing);
    listing.files.sort_by(|one, other| one.path.cmp(&other.path));
    listing
}

fn list(folder: &Path, prefix: &str, depth: usize, listing: &mut Listing) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(metadata), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else { continue };
        if listing.files.len() >= FILES_MAX || metadata.is_dir() && depth >= DEPTH_MAX {
            listing.more = true;
        } else if metadata.is_dir() {
            list(&entry.path(), &format!("{prefix}{name}/"), depth + 1, listing);
        } else if metadata.is_file() {
            listing.files.push(File { path: format!("{prefix}{name}"), bytes: metadata.len() });
        }
    }
}

/// How much of a growing history is read at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// How much of its end is read at first.
const FIRST_BYTES: u64 = 32 << 10;

/// Whole lines of a file that grows.
pub struct NewLines {
    pub lines: Vec<String>,
    /// From where to go on.
    pub next: u64,
}

/// The whole lines from there on; without a `from`, the last few.
pub fn new_lines(file: &Path, from: Option<u64>) -> std::io::Result<NewLines> {
    let mut file = open_regular(file)?;
    let length = file.metadata()?.len();
    let from_start = from.unwrap_or(length.saturating_sub(FIRST_BYTES)).min(length);
    file.seek(SeekFrom::Start(from_start))?;
    let mut bytes = Vec::new();
    file.take(PIECE_BYTES).read_to_end(&mut bytes)?;
    let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => at + 1,
        // A line longer than a piece is passed over.
        None if bytes.len() as u64 == PIECE_BYTES => bytes.len(),
        None => 0,
    };
    let mut text = &bytes[..whole];
    if from.is_none() && from_start > 0 {
        // It begins in the middle of a line.
        let first = text.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text = &text[first..];
    }
    let text = if text.ends_with(b"\n") { text } else { &[] };
    let lines = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    Ok(NewLines { lines, next: from_start + whole as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_opening_itself_refuses_what_leads_out_and_what_is_no_file() {
        let (results, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = results.path();
        fs::create_dir_all(at.join("run/logs")).unwrap();
        fs::write(at.join("run/report.html"), "inside").unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        symlink("run", at.join("latest")).unwrap();
        symlink("../run/report.html", at.join("run/again")).unwrap();
        let up = Path::new("../..").join(outside.path().file_name().unwrap()).join("secret");
        symlink(&up, at.join("run/up")).unwrap();
        assert_eq!(fs::read_to_string(at.join("run/up")).unwrap(), "secret", "without a check it leads out");
        symlink(outside.path().join("secret"), at.join("run/absolute")).unwrap();
        symlink(outside.path(), at.join("out")).unwrap();
        symlink("/proc/self/fd/0", at.join("run/magic")).unwrap();
        let pipe = at.join("run/pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in ["run/report.html", "latest/report.html", "run/again"] {
            let mut text = String::new();
            open_beneath(at, path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside", "{path}");
        }
        for path in [
            "run/up",
            "run/absolute",
            "out/secret",
            "run/magic",
            "run/pipe",
            "run/logs",
            "run/../run/report.html",
            "nowhere",
            "",
        ] {
            assert!(open_beneath(at, path).is_none(), "{path} was opened");
        }
    }

    #[test]
    fn a_file_that_grows_is_read_in_whole_lines() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "one\ntwo\nthr").unwrap();
        let first = new_lines(file.path(), None).unwrap();
        assert_eq!((first.lines, first.next), (vec!["one".to_owned(), "two".to_owned()], 8));
        assert_eq!(new_lines(file.path(), Some(8)).unwrap().lines, Vec::<String>::new());
        writeln!(file, "ee").unwrap();
        let next = new_lines(file.path(), Some(8)).unwrap();
        assert_eq!((next.lines, next.next), (vec!["three".to_owned()], 14));
        writeln!(file, "{}", "x".repeat(300_000)).unwrap();
        let long = new_lines(file.path(), Some(14)).unwrap();
        assert!(long.lines.is_empty() && long.next > 14, "it goes on after a line that is too long");
        // Someone asks for what is not there yet.
        assert_eq!(new_lines(file.path(), Some(9_999_999)).unwrap().next, 300_015);
    }

    #[test]
    fn of_a_long_file_only_the_end_is_read_first_and_never_half_a_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for number in 0..100_000 {
            writeln!(file, "line {number}").unwrap();
        }
        let end = new_lines(file.path(), None).unwrap();
        assert_eq!(end.lines.last().unwrap(), "line 99999");
        assert!(end.lines.len() < 5_000 && end.lines.iter().all(|line| line.starts_with("line ")));
    }
}
