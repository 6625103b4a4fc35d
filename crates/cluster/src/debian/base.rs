//! A small root file system with Debian's apt in it, which resolves packages on every machine in the same
//! way. Its packages are pinned by their hashes, since nothing can check a signature yet.
//! `tools/base-packages` makes the lists anew from Debian's signed ones.

use super::download::{Downloader, Failure, RemoteFile, cannot_store, is_full};
use super::settings::Mirror;
use super::store::Store;
use super::suite::{Archive, architecture};
use super::unpack::{Described, Unpacking, make_merged_links, unpack_all};
use crate::error::if_there;
use crate::hash::short_hash;
use crate::{ClusterError, Progress};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Changes when the base is put together in another way.
const RECIPE: &str = "1";

/// A line for each package: archive, path, size, SHA-256.
fn pinned() -> Option<&'static str> {
    match architecture() {
        "amd64" => Some(include_str!("base-amd64")),
        "arm64" => Some(include_str!("base-arm64")),
        _ => None,
    }
}

pub(super) fn folder(all: &Path) -> PathBuf {
    all.join(format!("base-{}", short_hash(format!("{RECIPE} {}", pinned().unwrap_or_default()).as_bytes())))
}

/// Makes the base where it is missing. [`Failure::Missing`] if the mirror has newer packages only.
pub(super) async fn make(
    all: &Path,
    mirror: &Mirror,
    downloader: &Downloader,
    store: &Store,
    progress: &Progress,
) -> Result<PathBuf, Failure> {
    let folder = folder(all);
    if folder.exists() {
        return Ok(folder);
    }
    let list = pinned().ok_or_else(|| {
        Failure::Here(format!(
            "there are no packages for the processors of this machine ({})",
            std::env::consts::ARCH
        ))
    })?;
    progress("downloading apt, which resolves Debian's packages; this is done once");
    let files: Vec<RemoteFile> = list.lines().filter_map(|line| remote_file(line, mirror)).collect();
    let packages = store.fetch(downloader, &files, progress).await?;
    let unfinished = all.join("base.unfinished");
    if_there(fs::remove_dir_all(&unfinished)).map_err(cannot_store(&unfinished))?;
    prepare(&unfinished).map_err(cannot_store(&unfinished))?;
    unpack(packages, &unfinished).await.map_err(|error| Failure::Here(error.0))?;
    fs::rename(&unfinished, &folder).map_err(cannot_store(&folder))?;
    remove_others(all, &folder);
    Ok(folder)
}

fn remote_file(line: &str, mirror: &Mirror) -> Option<RemoteFile> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [archive, path, bytes, hash] = words[..] else { return None };
    let address = mirror.address(Archive::of_folder(archive)?, path);
    Some(RemoteFile { address, bytes: bytes.parse().ok()?, hash: hash.to_owned() })
}

fn prepare(root: &Path) -> std::io::Result<()> {
    make_merged_links(root)?;
    for name in ["dev", "tmp", "suites"] {
        fs::create_dir_all(root.join(name))?;
    }
    // Nothing is mounted there; apt opens it for programs that read nothing.
    fs::write(root.join("dev/null"), "")
}

/// Unpacks packages on threads, which end soon after it is given up. Forgets a package that cannot be read.
pub(super) async fn unpack(packages: Vec<PathBuf>, root: &Path) -> Result<Vec<Described>, ClusterError> {
    struct StopFlag(Arc<AtomicBool>);
    impl Drop for StopFlag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = StopFlag(Arc::new(AtomicBool::new(false)));
    let (stopped, to) = (stop.0.clone(), root.to_owned());
    let unpacking = tokio::task::spawn_blocking(move || unpack_all(&packages, &to, &stopped));
    let done = unpacking.await.map_err(|error| error.to_string())?;
    drop(stop);
    done.map_err(|failed| unpacking_failed(root, failed))
}

fn unpacking_failed(root: &Path, Unpacking { package, error }: Unpacking) -> ClusterError {
    // The reader of archives passes the kind on alone.
    if is_full(&error) || error.raw_os_error().is_some() {
        return cannot_store(root)(error).into();
    }
    Store::forget(&package);
    ClusterError::new(format!("cannot unpack {}: {error}; it was removed, so try again", package.display()))
}

/// Those of other versions of Fencepost: lists are downloaded anew where one is used again.
fn remove_others(all: &Path, kept: &Path) {
    let Ok(entries) = fs::read_dir(all) else { return };
    for folder in entries.flatten().map(|entry| entry.path()).filter(|path| path != kept) {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("base-") {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_damaged_package() {
        let full = std::io::Error::from_raw_os_error(nix::libc::ENOSPC);
        let of_archive = std::io::Error::new(full.kind(), "failed to unpack `usr/bin/redis-server`");
        for error in [full, of_archive] {
            let package = tempfile::NamedTempFile::new().unwrap();
            let said =
                unpacking_failed(Path::new("/r"), Unpacking { package: package.path().into(), error }).0;
            assert!(said.contains("the disk is full") && said.contains("FENCEPOST_CACHE"), "{said}");
            assert!(package.path().exists(), "it is whole");
        }
    }
}
