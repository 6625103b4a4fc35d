//! Locks on files, which the kernel lets go of however their holder dies.

use crate::ClusterError;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

/// Waits for the lock on this file, and makes the file and its folder if need be.
pub(crate) fn lock(path: &Path) -> Result<FileLock, ClusterError> {
    let file = open(path)?;
    file.lock().map_err(|error| cannot_lock(path, &error))?;
    Ok(FileLock(file))
}

/// As `lock`, for asynchronous code: waiting can take long.
pub async fn lock_aside(path: PathBuf) -> Result<FileLock, ClusterError> {
    let waiting = tokio::task::spawn_blocking(move || lock(&path));
    waiting.await.map_err(|error| error.to_string())?
}

/// Shares a lock on this file with others who hold it so.
pub(crate) fn share(path: &Path) -> Result<FileLock, ClusterError> {
    let file = open(path)?;
    file.lock_shared().map_err(|error| cannot_lock(path, &error))?;
    Ok(FileLock(file))
}

/// As [`share`], for asynchronous code.
pub(crate) async fn share_aside(path: PathBuf) -> Result<FileLock, ClusterError> {
    let waiting = tokio::task::spawn_blocking(move || share(&path));
    waiting.await.map_err(|error| error.to_string())?
}

/// The lock, if no other process holds or shares it.
pub(crate) fn try_lock(path: &Path) -> Result<Option<FileLock>, ClusterError> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(FileLock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(cannot_lock(path, &error)),
    }
}

/// Whether any process holds a lock on this file.
pub(crate) fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_err())
}

fn open(path: &Path) -> Result<File, ClusterError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| {
            format!(
                "cannot make the folder {}: {error}; set FENCEPOST_CACHE to a folder that can be written to",
                folder.display()
            )
        })?;
    }
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|error| cannot_lock(path, &error))
}

fn cannot_lock(path: &Path, error: &std::io::Error) -> ClusterError {
    ClusterError::new(format!("cannot lock {}: {error}", path.display()))
}

/// Whether the run that locked this file is over. One that may not be looked at, another user's, counts as
/// alive.
pub(crate) fn is_over(lock_file: &Path) -> bool {
    match File::open(lock_file) {
        // Shared: two that look at once must not take each other for the run.
        Ok(file) => file.try_lock_shared().is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
