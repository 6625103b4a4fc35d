//! Folders of the cache: removing and measuring them.

use crate::ClusterError;
use crate::error::cannot;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(crate) async fn remove_folder(path: &Path) -> Result<(), ClusterError> {
    tokio::fs::remove_dir_all(path).await.map_err(cannot("remove", path))
}

pub(crate) async fn folder_size(path: &Path) -> u64 {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || size_below(&path)).await.unwrap_or(0)
}

/// What the files of a folder take up on the disk; one with several names counts once for each.
fn size_below(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => found.blocks() * 512 + size_below(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
