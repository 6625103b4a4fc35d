//! The folder in which an environment is made ready: its content, copied and built.

use super::commands::Commands;
use super::content::FolderContent;
use super::sources::environments;
use crate::ClusterError;
use crate::error::cannot;
use crate::file_lock::{self, FileLock};
use crate::own_task::aside;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WORK: &str = "work";

const LET_GO: Duration = Duration::from_secs(2);

/// A folder that is not ready yet. What was not kept is removed at the end, however that comes.
pub(crate) struct WorkFolder {
    work: PathBuf,
    /// By it others see that it is not abandoned.
    _lock: FileLock,
}

impl WorkFolder {
    /// Copies the content to a place of this name and runs the commands of `build` there.
    pub(crate) async fn make(
        content: FolderContent,
        name: &str,
        commands: &Commands<'_>,
    ) -> Result<WorkFolder, ClusterError> {
        remove_abandoned()?;
        let work = environments()?.join(format!("{name}.{WORK}"));
        let lock = file_lock::lock_blocking(lock_of(&work)).await?;
        remove(&work);
        let _ = std::fs::remove_file(&commands.log);
        let work = WorkFolder { work, _lock: lock };
        let to = work.folder();
        aside(move || content.copy(&to)).await?;
        commands.run(&commands.environment.build, &work.folder(), None).await?;
        Ok(work)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.work.join("lock")
    }

    pub(crate) fn beside(&self, name: &str) -> Result<PathBuf, ClusterError> {
        let folder = self.work.join(name);
        std::fs::create_dir_all(&folder).map_err(cannot("make the folder", &folder))?;
        Ok(folder)
    }

    /// Gives the folder its name: what bears the name is whole.
    pub(crate) fn keep(self, name: &Path) -> Result<(), ClusterError> {
        std::fs::rename(self.folder(), name).map_err(cannot("rename to", name))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        remove(&self.work);
        let _ = std::fs::remove_file(lock_of(&self.work));
    }
}

pub(crate) fn remove_abandoned() -> Result<Vec<String>, ClusterError> {
    let mut removed = Vec::new();
    let Ok(entries) = std::fs::read_dir(environments()?) else { return Ok(removed) };
    let works = entries.flatten().map(|entry| entry.path());
    for work in works.filter(|path| path.extension().is_some_and(|kind| kind == WORK)) {
        // Held meanwhile: what is made there now is not abandoned.
        if let Ok(Some(_lock)) = file_lock::try_lock(&lock_of(&work)) {
            remove(&work);
            let _ = std::fs::remove_file(lock_of(&work));
            removed.extend(work.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(removed)
}

fn lock_of(work: &Path) -> PathBuf {
    work.with_extension(format!("{WORK}-lock"))
}

/// Also while a process that is being killed still writes there.
fn remove(folder: &Path) {
    let begun = Instant::now();
    while std::fs::remove_dir_all(folder).is_err() && folder.exists() && begun.elapsed() < LET_GO {
        std::thread::sleep(Duration::from_millis(10));
    }
}
