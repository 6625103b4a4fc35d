//! The room on the disk that the programs of a node take.

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::fs::Metadata;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// More files than this, or open ones, are too many: a walk through all of them every second would keep the
/// machine busy, and among those that are not looked at could be a large one.
pub(super) const FILES_MAX: usize = 20_000;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DiskUse {
    Bytes(u64),
    TooMany,
    Hidden(PathBuf),
}

impl DiskUse {
    /// More than any limit where it could not be counted.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            DiskUse::Bytes(bytes) => *bytes,
            DiskUse::TooMany | DiskUse::Hidden(_) => u64::MAX,
        }
    }
}

/// The places of this node in which its programs can make files: the data folder, and each mount that can be
/// written but for the root, which is read-only where a client is to be limited, and the kernel's own.
pub(super) fn places(data: &str) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut places: Vec<PathBuf> = [data, "/tmp", "/dev/shm"].map(PathBuf::from).to_vec();
    places.extend(table.lines().filter_map(writable_mount).filter(|place| place != Path::new("/")));
    // What lies below another place is found there, unless it is a mount of its own, which no walk enters.
    places.sort();
    places.dedup();
    places
}

fn writable_mount(line: &str) -> Option<PathBuf> {
    const OF_FILES: [&str; 7] = ["tmpfs", "ext4", "xfs", "btrfs", "overlay", "zfs", "f2fs"];
    let (mount, kind) = line.split_once(" - ")?;
    let kind = kind.split(' ').next()?;
    let fields: Vec<&str> = mount.split(' ').collect();
    let (place, options) = (*fields.get(4)?, *fields.get(5)?);
    let is_writable = options.split(',').any(|option| option == "rw");
    (is_writable && OF_FILES.contains(&kind)).then(|| PathBuf::from(place.replace("\\040", " ")))
}

/// What the files in these places take, and those whose names were removed while a program has them open. A
/// file with several names counts once, and a walk does not leave the file system in which it began.
pub(super) fn disk_use(places: &[PathBuf], programs: impl Iterator<Item = i32>) -> DiskUse {
    let mut walk = Walk::default();
    for place in places {
        if let Err(end) = walk.place(place) {
            return end;
        }
    }
    for descriptor in programs.flat_map(descriptors) {
        if let Err(end) = walk.one_more() {
            return end;
        }
        if let Some(file) = removed(&descriptor, places) {
            walk.count(file.dev(), file.ino(), file.blocks());
        }
    }
    DiskUse::Bytes(walk.bytes)
}

#[derive(Default)]
struct Walk {
    bytes: u64,
    files: usize,
    counted: HashSet<(u64, u64)>,
}

impl Walk {
    fn one_more(&mut self) -> Result<(), DiskUse> {
        self.files += 1;
        if self.files > FILES_MAX { Err(DiskUse::TooMany) } else { Ok(()) }
    }

    fn count(&mut self, device: u64, inode: u64, blocks: u64) {
        if self.counted.insert((device, inode)) {
            self.bytes += blocks * 512;
        }
    }

    /// Walks below a place by descriptors: a path may be longer than the kernel takes.
    fn place(&mut self, place: &Path) -> Result<(), DiskUse> {
        let Ok(found) = std::fs::symlink_metadata(place) else { return Ok(()) };
        self.one_more()?;
        self.count(found.dev(), found.ino(), found.blocks());
        if !found.is_dir() {
            return Ok(());
        }
        let hidden = || DiskUse::Hidden(place.to_owned());
        let flags =
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let name = std::os::unix::ffi::OsStrExt::as_bytes(place.as_os_str());
        let name = CString::new(name).map_err(|_| hidden())?;
        let mut open: Vec<(Option<Rc<OwnedFd>>, CString)> = vec![(None, name)];
        while let Some((parent, name)) = open.pop() {
            let opened = match &parent {
                Some(parent) => openat(&**parent, &name, flags, Mode::empty()),
                None => rustix::fs::open(&name, flags, Mode::empty()),
            };
            drop(parent);
            let folder = match opened {
                Ok(folder) => Rc::new(folder),
                // It was removed or replaced meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(_) => return Err(hidden()),
            };
            for entry in Dir::read_from(&*folder).map_err(|_| hidden())? {
                let entry = entry.map_err(|_| hidden())?;
                let name = entry.file_name();
                if [c".", c".."].contains(&name) {
                    continue;
                }
                self.one_more()?;
                let Ok(file) = statat(&*folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                self.count(file.st_dev, file.st_ino, u64::try_from(file.st_blocks).unwrap_or(0));
                let is_folder = rustix::fs::FileType::from_raw_mode(file.st_mode).is_dir();
                if is_folder && file.st_dev == found.dev() {
                    open.push((Some(folder.clone()), name.to_owned()));
                }
            }
        }
        Ok(())
    }
}

fn descriptors(pid: i32) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// The file that a program has open, if it lay below one of these places, and has no name any more.
fn removed(descriptor: &Path, places: &[PathBuf]) -> Option<Metadata> {
    let name = std::fs::read_link(descriptor).ok()?;
    let lay_there = places.iter().any(|place| name.starts_with(place));
    if !lay_there || !name.to_string_lossy().ends_with(" (deleted)") {
        return None;
    }
    let file = std::fs::metadata(descriptor).ok()?;
    (file.is_file() && file.nlink() == 0).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(folder: &Path, programs: impl Iterator<Item = i32>) -> u64 {
        disk_use(&[folder.to_owned(), "/nowhere".into()], programs).bytes()
    }

    #[test]
    fn files_are_counted_once_however_many_names_they_have() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        std::fs::write(folder.path().join("below/file"), vec![1; 3 << 20]).unwrap();
        std::fs::hard_link(folder.path().join("below/file"), folder.path().join("again")).unwrap();
        let used = used(folder.path(), std::iter::empty());
        assert!((3 << 20..4 << 20).contains(&used), "{used}");
    }

    #[test]
    fn folders_deeper_than_any_path_is_long_are_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let name = "x".repeat(250);
        let mut at = rustix::fs::open(folder.path(), flags, Mode::empty()).unwrap();
        for _ in 0..60 {
            rustix::fs::mkdirat(&at, &*name, Mode::RWXU).unwrap();
            at = openat(&at, &*name, flags, Mode::empty()).unwrap();
        }
        let file = openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        std::io::Write::write_all(&mut std::fs::File::from(file), &vec![1; 3 << 20]).unwrap();
        let used = used(folder.path(), std::iter::empty());
        assert!(used >= 3 << 20, "{used}");
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
        let used = used(folder.path(), std::iter::once(me));
        assert!((3 << 20..4 << 20).contains(&used), "{used}");
    }

    #[test]
    fn more_files_than_can_be_looked_at_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        std::fs::create_dir(&below).unwrap();
        // With the folder that they are in, and the one above it.
        for number in 2..FILES_MAX {
            std::fs::File::create(below.join(number.to_string())).unwrap();
        }
        let folders = [folder.path().to_owned()];
        assert!(matches!(disk_use(&folders, std::iter::empty()), DiskUse::Bytes(_)));
        std::fs::File::create(below.join("one-more")).unwrap();
        assert_eq!(disk_use(&folders, std::iter::empty()), DiskUse::TooMany);
    }

    #[test]
    fn mounts_that_programs_can_write_to_are_places() {
        let table = "22 1 0:21 / /proc rw,nosuid - proc proc rw\n\
                     23 1 0:22 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755\n\
                     24 1 254:0 /x/hosts /etc/hosts rw - ext4 /dev/vda rw\n\
                     25 1 0:23 / /etc/secret ro - tmpfs tmpfs rw\n\
                     26 1 0:23 / /a\\040b rw - tmpfs tmpfs rw\n";
        let places: Vec<PathBuf> = table.lines().filter_map(writable_mount).collect();
        assert_eq!(places, ["/sys/fs/cgroup", "/etc/hosts", "/a b"].map(PathBuf::from));
    }
}
