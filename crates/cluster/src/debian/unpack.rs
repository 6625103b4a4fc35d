//! Unpacks Debian's packages: files, description, and the users their scripts would make. No script runs.

use super::users;
use crate::error::if_there;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tar::EntryType;

/// Folders of `/usr/share` that are not unpacked: no program reads them.
const LEFT_OUT: [&str; 6] = ["doc", "info", "locale", "man", "lintian", "bug"];

/// Folders of the root that are links into /usr, as in every Debian since 12.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// Makes these links, and the folders that they lead to, in a new root file system.
pub(super) fn make_merged_links(root: &Path) -> io::Result<()> {
    for name in MERGED {
        fs::create_dir_all(root.join("usr").join(name))?;
        symlink(format!("usr/{name}"), root.join(name))?;
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct Unpacking {
    pub(super) package: PathBuf,
    pub(super) error: io::Error,
}

#[derive(Default)]
pub(super) struct Described {
    /// The fields of its file `control`.
    pub(super) fields: String,
    pub(super) users: Vec<String>,
}

/// Unpacks all packages into a root, in parallel; gives their descriptions in order. `stop` ends it early.
pub(super) fn unpack_all(
    packages: &[PathBuf],
    root: &Path,
    stop: &AtomicBool,
) -> Result<Vec<Described>, Unpacking> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(package) = packages.get(number) else { return Ok(done) };
            if stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                return Ok(done);
            }
            match unpack(package, root) {
                Ok(description) => done.push((number, description)),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(Unpacking { package: package.clone(), error });
                }
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get().min(4));
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut descriptions = Vec::new();
    for result in results {
        let crashed = |_| Unpacking { package: root.to_owned(), error: io::Error::other("it crashed") };
        descriptions.extend(result.map_err(crashed)??);
    }
    descriptions.sort_by_key(|(number, _)| *number);
    Ok(descriptions.into_iter().map(|(_, description)| description).collect())
}

fn unpack(package: &Path, root: &Path) -> io::Result<Described> {
    let mut archive = ar::Archive::new(BufReader::new(File::open(package)?));
    let mut description = None;
    while let Some(member) = archive.next_entry() {
        let member = member?;
        let name = String::from_utf8_lossy(member.header().identifier()).trim_end_matches('/').to_owned();
        if let Some(kind) = name.strip_prefix("control.tar") {
            description = Some(describe(uncompressed(kind, member)?)?);
        } else if let Some(kind) = name.strip_prefix("data.tar") {
            unpack_files(uncompressed(kind, member)?, root)?;
            return description.ok_or_else(|| malformed("it does not describe itself"));
        }
    }
    Err(malformed("it holds no files, and is cut off or no package of Debian's"))
}

fn uncompressed<'a>(kind: &str, member: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match kind {
        "" => Box::new(member),
        ".xz" => Box::new(liblzma::read::XzDecoder::new(member)),
        ".gz" => Box::new(flate2::read::GzDecoder::new(member)),
        ".zst" => Box::new(ruzstd::decoding::StreamingDecoder::new(member).map_err(io::Error::other)?),
        other => {
            return Err(malformed(&format!("it is compressed in a way that is not known here ({other})")));
        }
    })
}

fn describe(tar: impl Read) -> io::Result<Described> {
    let mut archive = tar::Archive::new(tar);
    let mut described = Described::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.file_name().map(OsStr::to_owned).unwrap_or_default();
        let mut text = Vec::new();
        if ["control", "preinst", "postinst"].iter().any(|read| name == *read) {
            entry.read_to_end(&mut text)?;
        }
        let text = String::from_utf8_lossy(&text);
        match name == "control" {
            true => described.fields = text.trim_end().to_owned(),
            false => described.users.extend(users::made_by(&text)),
        }
    }
    match described.fields.is_empty() {
        true => Err(malformed("it does not describe itself")),
        false => Ok(described),
    }
}

fn unpack_files(tar: impl Read, root: &Path) -> io::Result<()> {
    let root = root.canonicalize()?;
    let mut archive = tar::Archive::new(BufReader::with_capacity(256 << 10, tar));
    archive.set_preserve_permissions(true);
    // Folders that are known to lie inside.
    let mut inside = HashSet::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let Some(place) = place(&entry.path()?)? else { continue };
        let target = root.join(&place);
        if let Some(parent) = target.parent()
            && inside.insert(parent.to_owned())
        {
            make_folder(parent)?;
            if !parent.canonicalize()?.starts_with(&root) {
                return Err(malformed(&format!("it would write outside, to {}", place.display())));
            }
        }
        match entry.header().entry_type() {
            EntryType::Directory => {
                make_folder(&target)?;
                // Links to folders stay as they are.
                if !target.is_symlink() {
                    let mode = entry.header().mode()? & 0o7777;
                    fs::set_permissions(&target, Permissions::from_mode(mode | 0o700))?;
                }
            }
            EntryType::Link => {
                let to = entry.link_name()?.unwrap_or_default();
                let to = self::place(&to)?.ok_or_else(|| malformed("it links to a file that is left out"))?;
                if_there(fs::remove_file(&target))?;
                fs::hard_link(root.join(to), &target)?;
            }
            EntryType::Regular | EntryType::Symlink | EntryType::GNUSparse => {
                entry.unpack(&target)?;
            }
            // No package of Debian's holds devices.
            _ => {}
        }
    }
    // To the end, where the sums are that say whether all of it came.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop)
}

/// Where a file of an archive belongs, relative to the root; none for one that is left out.
fn place(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut place = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => return Err(malformed(&format!("it would write outside, to {}", path.display()))),
        }
    }
    let parts: Vec<&OsStr> = place.iter().collect();
    match parts[..] {
        [] => Ok(None),
        // The links themselves are made here.
        [first] if MERGED.iter().any(|name| first == *name) => Ok(None),
        [first, ..] if MERGED.iter().any(|name| first == *name) => Ok(Some(Path::new("usr").join(place))),
        [usr, share, what, _, ..]
            if usr == "usr" && share == "share" && LEFT_OUT.iter().any(|it| what == *it) =>
        {
            Ok(None)
        }
        _ => Ok(Some(place)),
    }
}

/// Another package may make it at the same moment.
fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir_all(path) {
        Err(_) if path.is_dir() => Ok(()),
        made => made,
    }
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    enum Item {
        Text(&'static str, &'static str),
        Folder(&'static str),
        Link(&'static str, &'static str),
        Symlink(&'static str, &'static str),
    }

    fn tar(items: &[Item]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for item in items {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o755);
            header.set_size(0);
            let path = match item {
                Item::Text(path, text) => {
                    header.set_size(text.len() as u64);
                    header.set_entry_type(EntryType::Regular);
                    path
                }
                Item::Folder(path) => {
                    header.set_entry_type(EntryType::Directory);
                    path
                }
                Item::Link(path, to) | Item::Symlink(path, to) => {
                    let is_hard = matches!(item, Item::Link(..));
                    header.set_entry_type(if is_hard { EntryType::Link } else { EntryType::Symlink });
                    header.set_link_name_literal(to).unwrap();
                    path
                }
            };
            // Paths that the library itself would refuse are to be tried, too.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            let text = if let Item::Text(_, text) = item { text } else { "" };
            archive.append(&header, text.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn package(items: &[Item]) -> Vec<u8> {
        let mut archive = ar::Builder::new(Vec::new());
        let control = xz(&tar(&[Item::Text("./control", "Package: a\nVersion: 1\n")]));
        let data = xz(&tar(items));
        for (name, bytes) in
            [("debian-binary", &b"2.0\n"[..]), ("control.tar.xz", &control), ("data.tar.xz", &data)]
        {
            archive.append(&ar::Header::new(name.into(), bytes.len() as u64), bytes).unwrap();
        }
        archive.into_inner().unwrap()
    }

    /// What came of unpacking it into an empty root with merged folders.
    fn unpacked(bytes: &[u8]) -> (tempfile::TempDir, Result<Vec<String>, String>) {
        let place = tempfile::tempdir().unwrap();
        let (deb, root) = (place.path().join("a.deb"), place.path().join("root"));
        fs::write(&deb, bytes).unwrap();
        make_merged_links(&root).unwrap();
        let result = unpack_all(&[deb], &root, &AtomicBool::new(false)).map_err(|it| it.error.to_string());
        (place, result.map(|all| all.into_iter().map(|described| described.fields).collect()))
    }

    #[test]
    fn files_come_to_their_places_with_rights_and_links() {
        let items = [
            Item::Folder("./bin/"),
            Item::Text("./bin/a", "program"),
            Item::Link("./usr/sbin/b", "./bin/a"),
            Item::Symlink("./etc/link", "/nowhere"),
            Item::Text("./usr/share/doc/a/copyright", "long"),
            Item::Text("./usr/share/a/data", "kept"),
        ];
        let (place, result) = unpacked(&package(&items));
        assert_eq!(result.unwrap(), ["Package: a\nVersion: 1"]);
        let root = place.path().join("root");
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        assert_eq!(
            (read("usr/bin/a"), read("usr/sbin/b"), read("usr/share/a/data")),
            ("program".into(), "program".into(), "kept".into())
        );
        assert_eq!(fs::metadata(root.join("usr/bin/a")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_link(root.join("etc/link")).unwrap(), Path::new("/nowhere"));
        assert!(root.join("bin").is_symlink() && !root.join("usr/share/doc/a").exists());
    }

    #[test]
    fn a_package_that_would_write_outside_is_refused() {
        for items in [
            vec![Item::Text("../outside", "x")],
            vec![Item::Symlink("./etc", "/tmp"), Item::Text("./etc/outside", "x")],
            vec![Item::Link("./usr/bin/a", "../../outside")],
        ] {
            let (place, result) = unpacked(&package(&items));
            assert!(result.unwrap_err().contains("outside"));
            assert!(!place.path().join("outside").exists() && !Path::new("/tmp/outside").exists());
        }
    }

    #[test]
    fn a_package_that_is_cut_off_anywhere_is_refused() {
        let whole = package(&[Item::Text("./usr/bin/a", "program")]);
        assert!(unpacked(&whole).1.is_ok());
        for length in (0..whole.len() - 1).step_by(7) {
            assert!(unpacked(&whole[..length]).1.is_err(), "{length} of {} bytes", whole.len());
        }
    }
}
