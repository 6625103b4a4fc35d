//! Unpacked root file systems, in the cache.

use super::definitions::{Image, find, name_of};
use super::folders::folder_size;
use super::releases::Release;
use super::stored_item::{Kind, StoredItem};
use crate::debian::{self, DownloadSettings};
use crate::file_lock::{self, FileLock};
use crate::own_task::aside;
use crate::{ClusterError, Progress, cache};
use std::path::{Path, PathBuf};

/// A root file system in the cache, which is not removed while this lives.
#[derive(Debug)]
pub(crate) struct UnpackedRoot {
    pub(crate) folder: PathBuf,
    _used: FileLock,
}

pub(crate) async fn root_file_system(
    image: &Image,
    settings: &DownloadSettings,
    progress: &Progress,
) -> Result<UnpackedRoot, ClusterError> {
    let folder = folder(image)?;
    // Before the look: what is there stays there.
    let used = aside(|| file_lock::share(&use_lock()?)).await?;
    if folder.exists() {
        return Ok(UnpackedRoot { folder, _used: used });
    }
    // Another run may be making it: then this one waits, and finds it made.
    let _lock = file_lock::lock_blocking(all()?.join(format!("{}.lock", image.name))).await?;
    if !folder.exists() {
        remove_unfinished(&all()?);
        debian::make(image, &folder, settings, progress).await?;
    }
    Ok(UnpackedRoot { folder, _used: used })
}

/// Removes what killed makers left. The image that this process makes is locked; its maker removes it.
fn remove_unfinished(all: &Path) {
    for folder in std::fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = folder.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let image = name.rsplit_once('-').map_or(&*name, |(image, _)| image);
        if folder.extension().is_some_and(|it| it == "unfinished")
            && let Ok(Some(_unused)) = file_lock::try_lock(&all.join(format!("{image}.lock")))
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// The right to remove all of them; new ones wait until it is dropped. Errors: a run uses or makes one.
pub(crate) fn lock_unused() -> Result<FileLock, ClusterError> {
    file_lock::try_lock(&use_lock()?)?.ok_or_else(|| {
        let all = all().unwrap_or_default();
        ClusterError::new(format!(
            "a run uses or makes a root file system in {}: nothing was removed; wait for the end of the run, or end it, and try \
             again",
            all.display()
        ))
    })
}

fn use_lock() -> Result<PathBuf, ClusterError> {
    Ok(cache::folder()?.join("rootfs.lock"))
}

pub(crate) fn is_unpacked(image: &Image) -> bool {
    folder(image).is_ok_and(|folder| folder.exists())
}

/// Whether the root file system of a release's image is there.
pub fn is_made(release: &Release) -> bool {
    name_of(release).and_then(|name| find(name).ok()).is_some_and(is_unpacked)
}

/// All root file systems in the cache, of whatever version of Fencepost.
pub(crate) async fn list_unpacked() -> Result<Vec<StoredItem>, ClusterError> {
    let mut made = Vec::new();
    let Ok(entries) = std::fs::read_dir(all()?) else { return Ok(made) };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (name, hash) = name.rsplit_once('-').map_or((name.as_str(), ""), |parts| parts);
        let (name, hash) = (name.to_owned(), hash.to_owned());
        let current = Image::is_current(&name, &hash);
        let (place, bytes) = (path.display().to_string(), folder_size(&path).await);
        made.push(StoredItem { name, kind: Kind::RootFileSystem, place, bytes, current });
    }
    Ok(made)
}

fn folder(image: &Image) -> Result<PathBuf, ClusterError> {
    Ok(all()?.join(format!("{}-{}", image.name, image.hash())))
}

fn all() -> Result<PathBuf, ClusterError> {
    Ok(cache::folder()?.join("rootfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_maker_left_is_removed_and_what_is_made_just_now_is_not() {
        let all = tempfile::tempdir().unwrap();
        let folders =
            ["redis-1a.unfinished", "etcd-2b.unfinished", "etcd-3c"].map(|name| all.path().join(name));
        for folder in &folders {
            std::fs::create_dir_all(folder.join("usr")).unwrap();
        }
        let _made = file_lock::lock(&all.path().join("etcd.lock")).unwrap();
        remove_unfinished(all.path());
        assert_eq!(folders.map(|folder| folder.exists()), [false, true, true]);
    }
}
