//! Folders of clusters that run now, one each.
//!
//! A controller holds a lock on a file in its cluster's folder for as long as it lives; the kernel lets go of it however
//! the controller dies. So if the lock can be taken, the run is over.

use crate::ClusterError;
use crate::file_lock::{FileLock, is_held, lock};
use crate::subnet::Subnet;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folder of a run that is going on. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct ClusterFolder {
    pub(crate) path: PathBuf,
    pub(crate) subnet: Subnet,
    _lock: FileLock,
}

impl ClusterFolder {
    /// Makes it, with a subnet that no other run has and that `is_free` agrees to.
    pub(crate) fn create(run: &str, is_free: impl Fn(Subnet) -> bool) -> Result<ClusterFolder, ClusterError> {
        let runs = runs()?;
        let _lock = lock(&runs.join("lock"))?;
        let path = runs.join(run);
        let cannot = |error: std::io::Error| {
            ClusterError::new(format!("cannot make the folder of the run, {}: {error}", path.display()))
        };
        if is_held(&path.join("lock")) {
            return Err(ClusterError::new(format!(
                "a run named {run} is going on already; give this one another name"
            )));
        }
        let _ = std::fs::remove_dir_all(&path);
        let others: Vec<Subnet> = alive(&runs).iter().filter_map(|folder| subnet_of(folder)).collect();
        let subnet =
            Subnet::all().find(|subnet| !others.contains(subnet) && is_free(*subnet)).ok_or_else(|| {
                ClusterError::new("no subnet of 198.18.0.0/15 is free; remove networks that use it")
            })?;
        std::fs::create_dir(&path).map_err(cannot)?;
        let lock = lock(&path.join("lock"))?;
        std::fs::write(path.join("subnet"), subnet.to_string()).map_err(cannot)?;
        Ok(ClusterFolder { path, subnet, _lock: lock })
    }
}

impl ClusterFolder {
    /// What the run's controller has locked, for as long as it lives.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.path.join("lock")
    }
}

impl Drop for ClusterFolder {
    fn drop(&mut self) {
        // Under the lock: a search for crashed runs must not find half a folder, and take its run for crashed.
        let _lock = self.path.parent().and_then(|runs| lock(&runs.join("lock")).ok());
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of runs whose controllers are dead, and gives their names.
pub(crate) fn remove_dead() -> Result<Vec<String>, ClusterError> {
    let runs = runs()?;
    let _lock = lock(&runs.join("lock"))?;
    let mut removed = Vec::new();
    for folder in folders(&runs).into_iter().filter(|folder| !is_held(&folder.join("lock"))) {
        std::fs::remove_dir_all(&folder).map_err(|error| {
            ClusterError::new(format!(
                "cannot remove {}, which a crashed run left: {error}",
                folder.display()
            ))
        })?;
        removed.extend(folder.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    Ok(removed)
}

fn alive(runs: &Path) -> Vec<PathBuf> {
    folders(runs).into_iter().filter(|folder| is_held(&folder.join("lock"))).collect()
}

fn folders(runs: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(runs) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn subnet_of(folder: &Path) -> Option<Subnet> {
    std::fs::read_to_string(folder.join("subnet")).ok()?.parse().ok()
}

/// The folder of all runs of this user: temporary, and closed to other users.
fn runs() -> Result<PathBuf, ClusterError> {
    let user = nix::unistd::geteuid().as_raw();
    let path = std::env::temp_dir().join(format!("fencepost-{user}"));
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
    let found = made.and_then(|()| std::fs::symlink_metadata(&path)).map_err(|error| {
        ClusterError::new(format!(
            "cannot make the folder {}: {error}; set TMPDIR to another place",
            path.display()
        ))
    })?;
    if found.uid() != user || !found.is_dir() {
        return Err(ClusterError::new(format!(
            "the folder {} belongs to another user; remove it, or set TMPDIR to another place",
            path.display()
        )));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_run_that_is_being_taken_down_does_not_count_as_crashed() {
        let found = thread::scope(|scope| {
            let run = scope.spawn(|| {
                for count in 0..500 {
                    let name = format!("down-{}-{count}", std::process::id());
                    let folder = ClusterFolder::create(&name, |_| true).unwrap();
                    std::fs::create_dir(folder.path.join("more")).unwrap();
                }
            });
            let mut found = Vec::new();
            while !run.is_finished() {
                found.extend(remove_dead().unwrap());
            }
            found
        });
        let own = format!("down-{}-", std::process::id());
        let crashed: Vec<_> = found.iter().filter(|run| run.starts_with(&own)).collect();
        assert!(crashed.is_empty(), "of 500 runs that ended well, {} were taken for crashed", crashed.len());
    }
}
