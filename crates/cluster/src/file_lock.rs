//! Locks on files, which the kernel lets go of however their holder dies.

use crate::ClusterError;
use crate::error::cannot;
use crate::own_task::aside;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

/// Waits for the lock on this file, and makes the file and its folder if need be.
pub(crate) fn lock(path: &Path) -> Result<FileLock, ClusterError> {
    wait_for(path, File::lock)
}

/// As `lock`, for asynchronous code: waiting can take long.
pub async fn lock_blocking(path: PathBuf) -> Result<FileLock, ClusterError> {
    aside(move || lock(&path)).await
}

pub(crate) fn share(path: &Path) -> Result<FileLock, ClusterError> {
    wait_for(path, File::lock_shared)
}

pub(crate) fn try_lock(path: &Path) -> Result<Option<FileLock>, ClusterError> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, path).then_some(FileLock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(cannot("lock", path)(error)),
    }
}

pub(crate) fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_err())
}

fn wait_for(path: &Path, lock: fn(&File) -> io::Result<()>) -> Result<FileLock, ClusterError> {
    loop {
        let file = open(path)?;
        lock(&file).map_err(cannot("lock", path))?;
        if is_at(&file, path) {
            return Ok(FileLock(file));
        }
    }
}

/// Whether this file still has its name: the former holder may have removed it.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |metadata: io::Result<Metadata>| metadata.map(|it| (it.dev(), it.ino())).ok();
    number(file.metadata()) == number(std::fs::metadata(path))
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
    OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(cannot("lock", path))
}

/// Whether the run that locked this file is over. Another user's, which may not be looked at, is not.
pub(crate) fn is_over(lock_file: &Path) -> bool {
    match File::open(lock_file) {
        // Shared: two that look at once must not take each other for the run.
        Ok(file) => file.try_lock_shared().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually::eventually;
    use std::thread::spawn;

    fn is_waited_for(path: &Path) -> bool {
        let file = format!(":{} ", std::fs::metadata(path).expect("the file").ino());
        let locks = std::fs::read_to_string("/proc/locks").expect("the kernel's locks");
        locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&file))
    }

    #[test]
    fn a_lock_whose_file_was_removed_meanwhile_is_taken_on_the_new_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lock");
        let first = lock(&path).expect("the lock");
        let waiting = spawn({
            let path = path.clone();
            move || lock(&path)
        });
        eventually("the second waits for the lock", || is_waited_for(&path));
        std::fs::remove_file(&path).expect("the file is removed");
        drop(first);
        let second = waiting.join().expect("no panic").expect("the lock");
        assert!(try_lock(&path).expect("the file can be locked").is_none(), "two hold it");
        // Waiting, and not trying once: a program that another test starts holds what is open until it runs.
        drop(second);
        lock(&path).expect("the lock");
    }
}
