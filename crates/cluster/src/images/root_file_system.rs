//! Unpacked root file systems, in the cache.

use super::commands::folder_size;
use super::debian;
use super::definitions::Image;
use super::stored_item::{Kind, StoredItem};
use crate::{ClusterError, Progress, cache, file_lock};
use std::path::PathBuf;

/// The unpacked root file system of an image; made now if it is not there.
pub(crate) async fn root_file_system(image: &Image, progress: &Progress) -> Result<PathBuf, ClusterError> {
    let folder = folder(image)?;
    if folder.exists() {
        return Ok(folder);
    }
    // Another run may be making it: then this one waits, and finds it made.
    let _lock = file_lock::lock_aside(all()?.join(format!("{}.lock", image.name))).await?;
    if !folder.exists() {
        debian::make(image, &folder, progress).await?;
    }
    Ok(folder)
}

/// Whether the root file system of this image is there.
pub(crate) fn is_unpacked(image: &Image) -> bool {
    folder(image).is_ok_and(|folder| folder.exists())
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
