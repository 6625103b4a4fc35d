//! Environments that were made ready for this machine's nodes: folders in the cache. Each has a name of the
//! environment, the place of its source and its content. It gets its name when it is whole, and is removed
//! when its source has changed, or is gone, and no run uses it.

use crate::environment::{
    CommandRoot, Commands, Environment, FolderContent, WorkFolder, environments, note_source,
    remove_abandoned, source_is_gone, source_name,
};
use crate::file_lock::{self, FileLock};
use crate::hash::short_hash;
use crate::images::{Kind, StoredItem, folder_size};
use crate::{ClusterError, DriverOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder that is ready, and is not removed while this lives.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) folder: PathBuf,
    _lock: FileLock,
}

impl Prepared {
    /// Makes it for nodes of this root, unless it is there. Waits for another run that is making it.
    pub(crate) async fn make(
        environment: &Arc<Environment>,
        root: &Path,
        options: &DriverOptions,
    ) -> Result<Prepared, ClusterError> {
        let content = FolderContent::read(environment).await?;
        let all = environments()?;
        let source = source_name(environment);
        // The name of an unpacked root file system carries its hash.
        let hash = short_hash(format!("{} {}", content.hash, root.display()).as_bytes());
        let folder = all.join(format!("{source}-{hash}"));
        let alone = file_lock::lock_blocking(all.join(format!("{source}.lock"))).await?;
        if !folder.exists() {
            make(environment, content, root, &folder, options).await?;
            note_source(environment)?;
            remove_where(&all, |name| {
                (name.starts_with(&source) && !name.ends_with(&hash)) || is_of_no_source(name)
            });
        }
        let lock = file_lock::share(&folder.with_extension("lock"))?;
        drop(alone);
        Ok(Prepared { folder, _lock: lock })
    }
}

async fn make(
    environment: &Environment,
    content: FolderContent,
    root: &Path,
    folder: &Path,
    options: &DriverOptions,
) -> Result<(), ClusterError> {
    let commands = Commands {
        environment,
        program: &options.program,
        log: folder.with_extension("log"),
        time_limit: options.setup_time_limit,
        progress: &options.progress,
    };
    let work = WorkFolder::make(content, &name_of(folder), &commands).await?;
    let place =
        CommandRoot { root: root.to_owned(), mount_place: work.beside("root")?, tmp: work.beside("tmp")? };
    commands.run(&environment.setup, &work.folder(), Some(&place)).await?;
    work.keep(folder)
}

fn name_of(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_of_no_source(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(source, _)| source_is_gone(source))
}

fn remove_where(all: &Path, is_to_go: impl Fn(&str) -> bool) {
    for folder in prepared_folders(all) {
        let name = name_of(&folder);
        let lock = folder.with_extension("lock");
        if is_to_go(&name) && !file_lock::is_held(&lock) {
            let _ = std::fs::remove_dir_all(&folder);
            let _ = std::fs::remove_file(folder.with_extension("log"));
            let _ = std::fs::remove_file(lock);
        }
    }
}

fn prepared_folders(all: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(all) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    // Others are being made.
    paths.filter(|path| path.is_dir() && path.extension().is_none()).collect()
}

pub(crate) async fn list_prepared() -> Result<Vec<StoredItem>, ClusterError> {
    let (mut made, all) = (Vec::new(), environments()?);
    for path in prepared_folders(&all) {
        let full = name_of(&path);
        let name = full.rsplitn(3, '-').last().unwrap_or_default().to_owned();
        let (place, bytes) = (path.display().to_string(), folder_size(&path).await);
        made.push(StoredItem {
            name,
            kind: Kind::PreparedFolder,
            place,
            bytes,
            current: !is_of_no_source(&full),
        });
    }
    Ok(made)
}

pub(crate) fn remove_prepared() -> Result<(), ClusterError> {
    remove_abandoned()?;
    remove_where(&environments()?, |_| true);
    Ok(())
}
